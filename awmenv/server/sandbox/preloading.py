"""The modules that zygotes import before they fork: all that dataset code may need, as it cannot reach libraries later.

Owns the lists. Called by `zygote` (for verifiers) and `host` (for scenario apps).
"""

import importlib
from collections.abc import Iterable

_FOR_VERIFIERS = """
__future__ _strptime abc ast base64 bisect calendar cmath codecs collections collections.abc contextlib copy csv
ctypes dataclasses datetime decimal difflib enum errno fractions functools gc hashlib heapq hmac html importlib
inspect io itertools json keyword locale logging math numbers operator os os.path pathlib pprint random re secrets
shutil sqlite3 statistics string struct sys tempfile textwrap time traceback types typing unicodedata urllib.parse
uuid warnings weakref zlib zoneinfo stringprep encodings.ascii encodings.latin_1 encodings.cp1252 encodings.utf_16
encodings.utf_8_sig encodings.idna encodings.unicode_escape dateutil dateutil.parser dateutil.relativedelta mpmath
"""
_FOR_APPS = """
fastapi fastapi.encoders fastapi.exceptions fastapi.middleware.cors fastapi.openapi.utils fastapi.params
fastapi.responses fastapi.security starlette.responses starlette.status starlette.middleware.base sqlalchemy
sqlalchemy.orm sqlalchemy.dialects.sqlite sqlalchemy.dialects.sqlite.pysqlite sqlalchemy.event sqlalchemy.exc
sqlalchemy.ext.declarative sqlalchemy.ext.hybrid sqlalchemy.ext.mutable sqlalchemy.pool sqlalchemy.sql
sqlalchemy.types pydantic pydantic.networks pydantic.types pydantic.v1 pydantic.dataclasses
pydantic._internal._dataclasses pydantic_core email_validator jsonschema anyio._backends._asyncio anyio.to_thread
multipart python_multipart asyncio dateutil dateutil.parser dateutil.relativedelta html.parser http.client http.cookies
concurrent.futures.thread queue threading xml.etree.ElementTree ipaddress typing_extensions annotated_types greenlet
pickle gzip shlex getpass platform
"""

VERIFIER_MODULES = _FOR_VERIFIERS.split()
APP_MODULES = [*VERIFIER_MODULES, *_FOR_APPS.split()]


def preload(names: Iterable[str]) -> None:
    """Import what is installed; a missing module is skipped."""
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError:
            continue
