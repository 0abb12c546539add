"""What a client of S3 raises, in the product's words. Loaded only where datasets are in a bucket: boto3 is an extra."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from botocore.exceptions import BotoCoreError, ClientError

from exports.errors import StoreUnavailable


@contextlib.contextmanager
def reaching() -> Iterator[None]:
    """Turn errors of an S3 client into `StoreUnavailable`, or FileNotFoundError if a file is missing."""
    try:
        yield
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code", "")
        # S3 answers a request for a size with 404, and one for a file with NoSuchKey
        if code in ("404", "NoSuchKey"):
            raise FileNotFoundError(code) from error
        raise StoreUnavailable(
            f"The store of datasets refused the request ({code}): {StoreUnavailable.CHECK}"
        ) from error
    except BotoCoreError as error:
        silent = StoreUnavailable()
        silent.is_silent = True
        raise silent from error
