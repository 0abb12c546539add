"""Environment servers by name: the address of each, its description of itself, and a client for it.

The built-in one is `awm`; further ones are any OpenEnv servers. An AWM server without awmweb's extensions gets only
upstream's protocol: no recorded environments, no state differences, no other clocks. Of a server of another environment
(a *plain* one) `discover` finds out what it offers an agent, and which tasks. Answers are a stranger's: they are read
within bounds of size and time.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import threading
import time
from collections.abc import Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
from django.conf import settings

from awmclient.schema import ToolSpec, tools_problem
from awmenv.client import EnvironmentClient
from awmenv.errors import AwmenvError, CapacityReached, ServerTimeout, ServerUnreachable, SessionLost
from awmenv.models import one_line
from awmenv.offers import MAX_SPLITS, SEED, Offer, task_text
from awmenv.plain import PlainClient
from people.text.plain_text import writable
from runs.errors import NoServer, NotPlayable, UnknownEnvironment
from runs.plan import choosing
from runs.plan.choosing import http_address

BUILTIN = "awm"
PATIENCE_S = 3.0
"""How long a server may be silent before it counts as not responding."""
PROBE_S = 10.0
"""The most time for its health, metadata and schema together: it can send them byte by byte."""
DISCOVERY_S = 30.0
"""The most time to find out what a plain server offers: it may build a world for it."""
KNOWN_S = 20.0
"""How long an answer is kept for the form, which asks at each change."""
MAX_BODY = 2 * 1024 * 1024
MAX_TEXT, MAX_TEXTS = 20_000, 64 * 1024 * 1024
"""The most characters of the words of one task, and of those of all."""
TASKS_OF_A_READ = 100
SHOWN_TOOLS = 12
T = TypeVar("T")


@dataclass(frozen=True)
class ServerProfile:
    """One environment server. `timeout_s` applies to each call; headers are secrets and appear in no text."""

    name: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout_s: float = 120.0

    @property
    def address(self) -> str:
        """The HTTP address of the server."""
        return http_address(self.url)

    def client(self, *, restore: bool = False) -> EnvironmentClient:
        """Return a client of this server, not yet connected."""
        return EnvironmentClient(self.url, **self.options(), restore=restore)

    def plain_client(self, schema: Mapping[str, Any]) -> PlainClient:
        """Return a client of this server as a plain one, not yet connected."""
        return PlainClient(self.url, self.headers, timeout_s=self.timeout_s, schema=schema)

    def options(self) -> dict[str, Any]:
        """Return the arguments of a client, beside the address."""
        limits = {f"{name}_timeout_s": self.timeout_s for name in ("reset", "step", "verify")}
        return {"headers": self.headers} | (limits if self.name != BUILTIN else {})


@dataclass(frozen=True)
class ServerReport:
    """A server's description of itself; `problem` if it did not respond.

    `extended` servers record environments, report state differences and keep control tools from agents. The other
    fields are of `plain` ones: `kind` is *tools* or *actions*, `tools` are their names, `digest` covers their schemas,
    `splits` has the number of tasks by split, `sessions` is how many the server takes, if it is known to be few.
    `reserved` are tools that are left out for their names.
    """

    address: str
    problem: str = ""
    title: str = ""
    version: str = ""
    extended: bool = False
    plain: bool = False
    kind: str = ""
    tools: list[str] = field(default_factory=list)
    digest: str = ""
    splits: dict[str, int] = field(default_factory=dict)
    about: str = ""
    sessions: int | None = None
    reserved: list[str] = field(default_factory=list)

    @property
    def words(self) -> str:
        """One line for pages and reports."""
        if self.problem:
            return f"does not respond: {self.problem}"
        what = " ".join(part for part in (self.title, self.version or "no version reported") if part)
        if not self.plain:
            return f"{what}, {'records worlds' if self.extended else 'no recorded worlds and no state differences'}"
        return f"{what}, an OpenEnv environment of {self.kind or 'tools or actions'}"

    @property
    def offers(self) -> list[str]:
        """Sentences on what a plain server offers, and on what cannot be had of it."""
        if not self.plain:
            return []
        if not self.digest:
            return ["It was full at the launch. The first episode that gets a session finds out what it offers."]
        more = f" and {len(self.tools) - SHOWN_TOOLS} more" if len(self.tools) > SHOWN_TOOLS else ""
        tasks = ", ".join(f"{number:,} in {name}" for name, number in self.splits.items())
        sentences = [
            f"{self.kind.capitalize()}: {', '.join(self.tools[:SHOWN_TOOLS])}{more} (schemas {self.digest[:12]}).",
            *([f"Left out, because awmweb uses these names: {', '.join(self.reserved)}."] if self.reserved else []),
            f"Tasks: {tasks}." if tasks else "It lists no tasks: a task is a seed, or an ID that the plan lists.",
            "Outcomes are reported: reward and end come with its own steps, and no verifier runs.",
            "Not to be had: state differences, restored worlds, certificates, hidden control tools.",
        ]
        if self.sessions is not None:
            takes = "1 session" if self.sessions == 1 else f"{self.sessions} sessions"
            sentences.append(f"It takes {takes} at a time, and no more of the run's episodes run at the same time.")
        return sentences

    def stored(self) -> dict[str, Any]:
        """Return the part that a run stores."""
        return asdict(self)


def profile(name: str, before: str = "") -> ServerProfile:
    """Return the server by this name; of several built-in ones the one that an episode had `before`, or one with room.
    Raises `UnknownEnvironment`."""
    if name == BUILTIN:
        return ServerProfile(BUILTIN, choosing.with_room(before))
    if name not in settings.ENVIRONMENTS:
        names = ", ".join([BUILTIN, *settings.ENVIRONMENTS])
        raise UnknownEnvironment(f"AWMWEB_ENVIRONMENTS names no server {name!r}. Known: {names}.")
    fields: dict[str, Any] = settings.ENVIRONMENTS[name]
    return ServerProfile(name, **fields)


def known(name: str) -> ServerProfile:
    """Return the server by this name, or the built-in one: recorded and imported episodes can name any environment."""
    return profile(name if name in settings.ENVIRONMENTS else BUILTIN)


def reason_of(error: Exception) -> str:
    """Return why a server did not respond, without the system's error number."""
    at: BaseException | None = error
    while at is not None:
        # what the system said is below the words of the client
        if isinstance(at, OSError) and at.errno:
            return os.strerror(at.errno)
        at = at.__cause__ or at.__context__
    return re.sub(r"^\[Errno -?\d+\] ", "", str(error))[:300] or type(error).__name__


def probe(at: ServerProfile) -> ServerReport:
    """Ask a server for its health and metadata. A server of others may have neither; it answers all the same."""
    return asked(at)[0]


def asked(at: ServerProfile) -> tuple[ServerReport, dict[str, Any]]:
    """Return what `probe` does, and the server's `/schema`."""
    return _waited(_probed(at))


def discover(at: ServerProfile) -> ServerReport:
    """Ask a server what it is and, if it is a plain one, what it offers. Raises `NotPlayable` if an agent can use
    nothing of it, or if it breaks the protocol. A server that does not respond is reported; so is a full one, without
    what only a session says (`digest` is empty). Raises `NoServer` if it falls silent halfway."""
    report, schema = asked(at)
    if not report.plain:
        return report
    return _waited(_discovered(at, report, schema))


_known: dict[str, tuple[float, ServerReport]] = {}
_lock = threading.Lock()


def report_of(at: ServerProfile) -> ServerReport:
    """Return what `discover` found some seconds ago, or finds now."""
    with _lock:
        asked, report = _known.get(at.address, (-KNOWN_S, ServerReport("")))
    if time.monotonic() - asked < KNOWN_S:
        return report
    report = discover(at)
    with _lock:
        _known[at.address] = (time.monotonic(), report)
    return report


def _waited(asked: Coroutine[Any, Any, T]) -> T:
    """Run in a thread of its own: the caller's can have a loop already."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, asked).result()


async def _probed(at: ServerProfile) -> tuple[ServerReport, dict[str, Any]]:
    """Return the report of a server and its `/schema`."""
    try:
        async with asyncio.timeout(PROBE_S), _client(at, PATIENCE_S) as client:
            health, about, schema = [await _object(client, path) for path in ("/health", "/metadata", "/schema")]
    except TimeoutError:
        return ServerReport(at.address, problem="no answer in time"), {}
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        return ServerReport(at.address, problem=reason_of(error)), {}
    # upstream lists no extensions; a server that reports a sandbox level is awmweb's
    extended = "tier" in health
    report = ServerReport(
        at.address,
        title=_line(about.get("name")),
        version=_line(health.get("version") or about.get("version")),
        extended=extended,
        plain=not extended and _is_plain(schema),
        about=one_line(about["description"], 1000) if isinstance(about.get("description"), str) else "",
    )
    return report, schema


def _is_plain(schema: Mapping[str, Any]) -> bool:
    """Return whether a server's environment is another one than AWM, whose observations have a reward type."""
    observation = schema.get("observation")
    fields = observation.get("properties") if isinstance(observation, Mapping) else None
    return isinstance(schema.get("action"), Mapping) and not (isinstance(fields, Mapping) and "reward_type" in fields)


async def _discovered(at: ServerProfile, report: ServerReport, schema: dict[str, Any]) -> ServerReport:
    """Return a plain server's report with what it offers: asks a session of its own for it, and ends it."""
    try:
        async with asyncio.timeout(DISCOVERY_S):
            report = replace(report, splits=await splits_of(at))
            async with at.plain_client(schema) as session:
                full_report = with_offer(at, report, await session.offered())
                return replace(full_report, sessions=await _few(at))
    except CapacityReached as full:
        # a state that passes: the episodes wait for a session, and the first one asks
        return replace(report, sessions=full.sessions)
    except _PASSING as error:
        raise _silent(at, error) from error
    except (AwmenvError, httpx.HTTPError, ValueError) as error:
        raise NotPlayable(f"The environment server {at.name} cannot be used. {reason_of(error)}") from error


def with_offer(at: ServerProfile, report: ServerReport, offer: Offer) -> ServerReport:
    """Return the report of a plain server with what a session offers. Raises `NotPlayable` for tools that no agent can
    have."""
    tools = offer.tools
    specs = [ToolSpec(name=one.name, description=one.description, input_schema=one.input_schema) for one in tools]
    if problem := tools_problem(specs):
        raise NotPlayable(f"The environment server {at.name} cannot be used. {problem}")
    names, reserved = [tool.name for tool in tools], list(offer.reserved)
    return replace(report, kind=offer.kind, tools=names, digest=offer.digest, reserved=reserved)


_PASSING = (TimeoutError, httpx.TransportError, ServerUnreachable, ServerTimeout, SessionLost)
"""What a server that fell silent raises. It can respond again, so it is no refusal of the plan."""


def _silent(at: ServerProfile, error: Exception) -> NoServer:
    why = f"it did not answer in {DISCOVERY_S:g} s" if isinstance(error, TimeoutError) else reason_of(error)
    return NoServer(f"The environment server {at.name} does not say what it offers: {why}. Launch again later.")


async def _few(at: ServerProfile) -> int | None:
    """Return how many sessions a server takes if a second one is refused, else None."""
    try:
        async with at.plain_client({}) as second:
            await second.state()
    except CapacityReached as full:
        return full.sessions or 1
    except AwmenvError:
        return None  # whatever its state is: it took the session
    return None


async def splits_of(at: ServerProfile) -> dict[str, int]:
    """Return the number of tasks by split, from the Task API; empty if there is none."""
    async with asyncio.timeout(DISCOVERY_S), _client(at, DISCOVERY_S) as client:
        return await _splits(client)


async def _splits(client: httpx.AsyncClient) -> dict[str, int]:
    name = await _environment_name(client)
    listed = await _json(client, f"/{name}/splits") if name else None
    named = (
        [one["name"] for one in listed if isinstance(one, dict) and isinstance(one.get("name"), str)]
        if isinstance(listed, list)
        else []
    )
    sizes: dict[str, int] = {}
    for split in named[:MAX_SPLITS]:
        if not split.isprintable() or not 0 < len(split) <= 200 or split == SEED:
            raise ValueError(f"Its Task API names a split {one_line(repr(split))}.")
        reply = await _json(client, f"/{name}/num_tasks", {"split": split})
        number = reply.get("num_tasks") if isinstance(reply, dict) else None
        if type(number) is not int or not 0 <= number < 2**31:
            raise ValueError(f"Its Task API does not say how many tasks are in {one_line(split)}.")
        sizes[split] = number
    return sizes


async def _environment_name(client: httpx.AsyncClient) -> str:
    listed = await _json(client, "/list_environments")
    name = listed[0] if isinstance(listed, list) and listed else None
    # half of a surrogate pair has no UTF-8, and is not printable
    return quote(name, safe="") if isinstance(name, str) and name.isprintable() else ""


def task_texts(at: ServerProfile, split: str, indexes: list[int]) -> dict[int, str]:
    """Return the words of tasks from a server's Task API, by index; those that it has none for are left out."""
    return _waited(_task_texts(at, split, indexes))


async def _task_texts(at: ServerProfile, split: str, indexes: list[int]) -> dict[int, str]:
    texts: dict[int, str] = {}
    index_set, size = set(indexes), 0
    try:
        async with asyncio.timeout(DISCOVERY_S), _client(at, DISCOVERY_S) as client:
            name = await _environment_name(client)
            for start in sorted({index - index % TASKS_OF_A_READ for index in indexes}):
                asked = {"split": split, "start": start, "stop": start + TASKS_OF_A_READ}
                reply = await _json(client, f"/{name}/task_range", asked)
                specs = reply.get("tasks") if isinstance(reply, dict) else None
                if not isinstance(specs, list):
                    continue
                for index, spec in enumerate(specs[:TASKS_OF_A_READ], start):
                    if index in index_set and (text := writable(task_text(spec)[:MAX_TEXT])):
                        texts[index], size = text, size + len(text)
                if size > MAX_TEXTS:
                    raise ValueError(f"The words of its tasks have more than {MAX_TEXTS >> 20} MB.")
    except _PASSING as error:
        raise _silent(at, error) from error
    except (httpx.HTTPError, ValueError) as error:
        raise NotPlayable(f"The environment server {at.name} did not name its tasks. {reason_of(error)}") from error
    return texts


def _client(at: ServerProfile, patience_s: float) -> httpx.AsyncClient:
    # identity: a compressed body is small only until it is read
    headers = {**at.headers, "Accept-Encoding": "identity"}
    return httpx.AsyncClient(base_url=at.address, headers=headers, timeout=patience_s, trust_env=False)


async def _json(client: httpx.AsyncClient, path: str, body: Mapping[str, Any] | None = None) -> Any:
    """Return the JSON of an answer, None if the server has no such call. Raises ValueError if it is too long."""
    method = "GET" if body is None else "POST"
    async with client.stream(method, path, json=None if body is None else dict(body)) as answer:
        if not answer.is_success:
            return None
        if answer.headers.get("content-encoding", "identity") != "identity":
            raise ValueError(f"Its answer to {path} is compressed, which was not asked for.")
        whole = bytearray()
        async for part in answer.aiter_raw():
            whole += part
            if len(whole) > MAX_BODY:
                raise ValueError(f"Its answer to {path} has more than {MAX_BODY >> 20} MB.")
    try:
        return json.loads(whole)
    except RecursionError as error:
        raise ValueError(f"Its answer to {path} is nested too deeply.") from error


async def _object(client: httpx.AsyncClient, path: str) -> dict[str, Any]:
    """Return an object, or an empty one: an external server may lack this address and still work."""
    reply = await _json(client, path)
    return reply if isinstance(reply, dict) else {}


def object_of(answer: httpx.Response) -> dict[str, Any]:
    """Return an object, or an empty one: an external server may lack this address and still work."""
    body = answer.json() if answer.is_success else {}
    return body if isinstance(body, dict) else {}


def _line(value: Any) -> str:
    return one_line(value, 100) if isinstance(value, str) else ""
