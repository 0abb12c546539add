"""Who uses which definition: names, attributes, addresses, templates and files are arrows between them.

A method runs if its class is reached and its name is said. What only a running product follows (tasks by name, the
other side of a wire, forms and scripts of a page) is kept apart from what any test does. Called by `selecting.py`.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

from tests.definitions import NUMBER, Part, imports_of, module_of, parts_of, shape, stripped

PRODUCT = "people notices episodes reviews experts runs curriculum exports imports awmenv awmclient awmweb"
PACKAGES = {*PRODUCT.split(), "tests", "tools", "bench", "examples", "deploy"}
SKELETON = re.compile(
    r"awmweb/(embedded/.*|__init__|apps|asgi|celery|logs|middleware|preloaded|management/commands/up)(\.py)?"
)
"""What runs wherever the whole product runs."""
LISTS = {"rglob", "glob", "walk", "iterdir", "copytree", "iter_modules", "PACKAGES", "APPS"}
READERS = {*LISTS, "ROOT", "__file__", "getsource", "read_text", "read_bytes", "tree"}
"""What a test has that reads files of the tree; which ones, its texts say."""
ALL_ROUTES = {"urlpatterns", "get_resolver", "get_openapi_schema"}
EACH, OWN = "each file", ("tests.definitions", "tests.uses", "tests.selecting")
ALL_FILES = re.compile(r"\bROOT\.rglob\(")
JOINED = re.compile(r'"\d+"(?: / "\d+")*')
APART = ("awmclient", "awmenv")
"""Folders whose tests know nothing of the product: their addresses are those of servers of their own."""
PROCESSES, BROWSERS = "tests.running:product", "tests.browser.conftest:driver"
CLIENTS = {"Client", "AsyncClient", "ASGITransport", "WebsocketCommunicator", "asgi"}
"""What a test has whose requests go through the middleware of the product."""
STORED = re.compile(r"(\w+)(?:\[[^\]\n]*\] = |\.(?:append|add|setdefault|extend|insert|update)\()")
"""What a function fills."""
PLAIN_BASES = re.compile(
    r"Model|Manager|QuerySet|models|from_queryset|Exception|ValueError|RuntimeError|Protocol|Generic|NamedTuple|Enum"
    r"|StrEnum|str|object|Any|Self|TypeVar|ABC"
)
"""Bases of others that call no method of a class but those of `HOOKS`."""
HOOKS = re.compile(
    r"save|clean|delete|full_clean|get_absolute_url|get_queryset|from_db|contribute_to_class|deconstruct"
)
WORDS = re.compile(r"\.?[A-Za-z_]\w*(?:\.\w+)*")
FIRST = re.compile(r'(?:\(|(?<!\w)\[)\s*"(\d+)"')
ADDRESS = re.compile(r"(?:^|[\0\s\"'(=])(/[^\s\"'<>?#]*)")
CHAIN = re.compile(r"(?<![\w.\"])[A-Za-z_]\w*(?:\.\w+)*")
ATTRIBUTE = re.compile(r"\.\s*([A-Za-z_]\w*)")
DOTTED = re.compile(r"[a-z_]\w*(?:\.\w+)+")
CALLED = re.compile(r"^ *([\w.]+)\(", re.M)


Uses = dict[str, set[str]]
"""What a node uses."""


@dataclass
class Graph:
    """The tree's definitions and who uses them, in three depths: what any test sees, what a client's calls reach on
    the other side of a wire, and what a browser loads and presses."""

    texts: Mapping[str, str]
    plain: Uses = field(default_factory=lambda: defaultdict(set))
    spoken: Uses = field(default_factory=lambda: defaultdict(set))
    running: Uses = field(default_factory=lambda: defaultdict(set))
    browsed: Uses = field(default_factory=lambda: defaultdict(set))
    all_strings: dict[str, list[str]] = field(default_factory=dict)
    parts: dict[str, list[Part]] = field(default_factory=dict)
    names: dict[str, set[str]] = field(default_factory=dict)
    imports: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    stars: dict[str, list[str]] = field(default_factory=dict)
    routes: list[tuple[list[str], str]] = field(default_factory=list)
    routes_of_length: dict[int, list[tuple[list[str], str]]] = field(default_factory=lambda: defaultdict(list))
    known_addresses: dict[str, set[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.files = {module_of(path): path for path in self.texts if path.endswith(".py")}
        self.packages = {module.rpartition(".")[0] for module in self.files}
        for module, path in self.files.items():
            self.parts[module], code, self.all_strings[module] = parts_of(module, self.texts[path])
            self.names[module] = {part.node.partition(":")[2] for part in self.parts[module]}
            self.imports[module], self.stars[module] = imports_of(module, path, code)
        self.templates = {path[10:] for path in self.texts if path.startswith("templates/")}
        self._read_routes()
        self.commands = defaultdict(list)
        for module in self.files:
            if ".management.commands." in module:
                self.commands[module.rpartition(".")[2]].append(module)
        all_parts = (part for parts in self.parts.values() for part in parts)
        self.method_names = {part.node.rpartition(".")[2] for part in all_parts if "." in part.node.partition(":")[2]}
        self.readers: list[tuple[str, set[str], bool]] = []
        self.methods: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for module, parts in self.parts.items():
            self._link_module(module, parts)
        self.running["awmenv.client:EnvironmentClient"].add("awmenv.server.__main__:*")
        self._link_templates()
        self._link_methods()
        self._link_registrations()

    def nodes_of(self, dotted: str) -> Iterator[str]:
        """Yield the node of a dotted path from the top of the tree: of a definition, or of a whole module."""
        steps = dotted.split(".")
        if steps[0] not in PACKAGES:
            return
        module = steps[0]
        for step in steps[1:]:
            if f"{module}.{step}" in self.files or f"{module}.{step}" in self.packages:
                module = f"{module}.{step}"
            else:
                yield from self._member(module, step, set())
                return
        yield f"{module}:*"
        if f"{module}.__main__" in self.files:
            yield f"{module}.__main__:*"

    def _member(self, module: str, name: str, seen: set[str]) -> Iterator[str]:
        yield f"{module}:{name}"  # also where it is not there any more
        if module in seen or name in self.names.get(module, ()):
            return
        for target in self.imports.get(module, {}).get(name, ()):
            yield from self.nodes_of(target)
        for star in self.stars.get(module, ()):
            yield from self._member(star, name, {*seen, module})

    def resolved(self, module: str, chain: str) -> Iterator[str]:
        """Yield the nodes that a name of a module's code stands for."""
        first, _, rest = chain.partition(".")
        if first in self.names[module]:
            yield f"{module}:{first}"
        elif first in self.imports[module]:
            for target in self.imports[module][first]:
                yield from self.nodes_of(f"{target}.{rest}" if rest else target)
        elif module.startswith("tests."):
            steps = module.split(".")
            for depth in range(len(steps) - 1, 0, -1):
                conftest = ".".join([*steps[:depth], "conftest"])
                if first in self.names.get(conftest, ()):
                    yield f"{conftest}:{first}"
                    return
                if first in self.imports.get(conftest, ()):
                    yield from self.resolved(conftest, first)
                    return
            if first in self.names["tests.house"]:
                yield f"tests.house:{first}"
        for star in self.stars.get(module, ()):
            if first not in self.names[module] and first in self.names.get(star, ()):
                yield f"{star}:{first}"

    def _named_above(self, module: str) -> set[str]:
        """Return the names that a module has without saying where from: of fixtures, and of modules it takes whole."""
        above = set().union(*(self.names.get(star, set()) for star in self.stars[module]))
        steps = module.split(".") if module.startswith("tests.") else []
        for place in ["tests.house"] * bool(steps) + [".".join([*steps[:n], "conftest"]) for n in range(1, len(steps))]:
            above |= self.names.get(place, set()) | set(self.imports.get(place, ()))
        return above

    def _link(self, user: str, used: str) -> None:
        if user != used:
            self.plain[user].add(used)

    def _link_module(self, module: str, parts: list[Part]) -> None:
        is_test = module.startswith("tests.")
        if module == "awmweb.settings":
            for words in self.all_strings[module]:
                if DOTTED.fullmatch(words) and ".tasks." not in words and not words.endswith((".urls", ".application")):
                    for used in self.nodes_of(words):
                        self._link("settings", used)
        if module == "awmweb.settings" or module.endswith(".urls"):
            return
        cached: dict[str, tuple[str, ...]] = {}
        bindable = {*self.names[module], *self.imports[module]}
        named_above = self._named_above(module)
        text = self.texts[self.files[module]]
        may_read = is_test and module not in OWN and any(word in text for word in READERS)
        read_by: dict[str, tuple[set[str], set[str]]] = {}
        commanding = is_test and re.search(r"manage|command", text)
        if is_test and any(wild(words) for part in parts for words in part.strings):
            short = {words for part in parts for words in part.strings if re.fullmatch(r"[\w/-]{2,40}/?", words)}
            for words in short:
                self._speak(module, f"{module}:", f"/{words.strip('/')}")
                self._speak(module, f"{module}:", f"/{words.strip('/')}/")
        for part in parts:
            node = part.node
            self._link(f"{module}:*", node)
            self._link(node, f"{module}:")
            if part.owner:
                self._link(node, part.owner)
            used_here = self.plain[node]
            spelled = set()
            for chain in set(WORDS.findall(part.code)):
                spelled.update(chain.split("."))
                if chain[0] != ".":
                    first = chain.partition(".")[0]
                    if first not in bindable:
                        if first in named_above:
                            bindable.add(first)
                        else:
                            chain = chain[len(first) :]
                    if chain and chain[0] != ".":
                        if chain not in cached:
                            cached[chain] = tuple(self.resolved(module, chain))
                        for used in cached[chain]:
                            if not used.endswith(":*") or "." in chain or is_bare(chain, part.code):
                                used_here.add(used)
                for name in chain.split(".")[1:]:
                    if name in self.method_names:
                        used_here.add(f".{name}")
            if "attr" in part.code or "methodcaller" in part.code:
                for words in part.strings:
                    if words in self.method_names:
                        self._link(node, f".{words}")
            self._link_texts(module, part, is_test)
            if CLIENTS & spelled:
                self._link(node, "settings")
            if may_read:
                places = set()
                for joined in JOINED.findall(part.code):
                    steps = [self.all_strings[module][int(number)].strip("/") for number in NUMBER.findall(joined)]
                    places |= {"/".join(steps), steps[-1]}
                if ALL_FILES.search(part.code) or "ls-files" in part.strings:
                    places.add(EACH)
                read_by[node] = places, spelled
            if is_test and ALL_ROUTES & spelled:
                used_here.update(route for _, route in self.routes)
            for number in FIRST.findall(part.code) if commanding else ():
                for command in self.commands.get(self.all_strings[module][int(number)], ()):
                    if not command.endswith(".up"):
                        self._link(node, f"{command}:*")

        for node, (_, spelled) in read_by.items():
            if READERS & spelled:
                group, left = {node}, [spelled]
                while left:
                    near = {f"{module}:{name}" for name in left.pop()} & read_by.keys() - group
                    group |= near
                    left += [read_by[other][1] for other in near]
                places = set().union(*(read_by[other][0] for other in group))
                self.readers.append((node, places, any(LISTS & read_by[other][1] for other in group)))

    def _link_texts(self, module: str, part: Part, is_test: bool) -> None:
        node = part.node
        for words in part.strings:
            if len(words) > 120 and not is_test:
                continue
            if DOTTED.fullmatch(words) and words.partition(".")[0] in PACKAGES:
                for used in self.nodes_of(words):
                    if is_test or ".tasks:" not in used:
                        self._link(node, used)
                    elif not SKELETON.fullmatch(self.files[module]):
                        self.running[node].add(used)
            if words.endswith((".html", ".svg", ".txt", ".xml")):
                for template in self._matching(words):
                    self._link(node, f"template {template}")
            if not is_test and "_" in words and words in self.commands:
                for command in self.commands[words]:
                    self._link(node, f"{command}:*")
            if is_test and words.isidentifier():
                for used in self.resolved(module, words) if "fixture" in part.code else ():
                    self._link(node, used)
            if is_test and "openapi.json" in words:
                for _, route in self.routes:
                    self._link(node, route)
            if "/" in words and (is_test or module.startswith("awmclient.")):
                self._speak(module, node, words)

    def _speak(self, module: str, node: str, words: str) -> None:
        apart = not module.startswith("tests.") or module.split(".")[1] in APART
        (self.spoken if apart else self.plain)[node].update(self.addressed(words))

    def _matching(self, words: str) -> Iterable[str]:
        if "\0" not in words:
            return (words,) if words in self.templates else ()
        pattern = re.compile(".*".join(map(re.escape, words.split("\0"))))
        return [template for template in self.templates if pattern.fullmatch(template)]

    def _read_routes(self) -> None:
        self.route_names: Uses = defaultdict(set)
        for module, path in self.files.items():
            if module.startswith("tests.") or "path(" not in self.texts[path] and "router." not in self.texts[path]:
                continue
            for address, view, more in re.findall(
                r"""(?:re_)?path\(\s*r?["']([^"']*)["'],\s*([\w.]+)([^\n]*(?:\n {8,}[^\n]*)*)""", self.texts[path]
            ):
                self._add_route(address, list(self.resolved(module, view)), re.search(r'name="(\w+)"', more))
            for part in self.parts[module]:
                if re.match(r'@\w*router\.\w+\(\s*"(\d+)"', part.code.lstrip()):
                    self._add_route(part.strings[0], [part.node], None)

    def _add_route(self, address: str, views: list[str], name: re.Match[str] | None) -> None:
        route = f"route {address}"
        steps = segments(re.sub(r"<[^>]*>|\{[^}]*\}|\(\?P.*?\)", "\0", address))
        self.routes.append((steps, route))
        self.routes_of_length[len(steps)].append((steps, route))
        if name:
            self.route_names[name[1]].add(route)
        for view in views:
            self._link(route, view)

    def addressed(self, words: str) -> set[str]:
        """Return the routes of the addresses in a text of a test; a text that goes on stands for all that begin so."""
        if words not in self.known_addresses:
            places = ADDRESS.findall(words)
            self.known_addresses[words] = {route for place in places for route in self._at(place)}
        return self.known_addresses[words]

    def _at(self, place: str) -> Iterator[str]:
        goes_on = place.endswith("\1")
        wished = segments(place.removesuffix("\1").replace("/api/v1", ""))
        for steps, route in self.routes if goes_on else self.routes_of_length[len(wished)]:
            pairs = list(zip(steps, wished, strict=False))
            fits = len(steps) >= len(wished) and all(one == other or "\0" in one + other for one, other in pairs)
            if fits and (any(one == other != "" for one, other in pairs) or wished == [""] == steps):
                yield route

    def _link_templates(self) -> None:
        homes = defaultdict(list)
        for module in self.files:
            if ".templatetags." in module:
                for name in self.names[module]:
                    homes[name].append(f"{module}:{name}")
        for path, text in self.texts.items():
            if not path.startswith("templates/"):
                continue
            node = f"template {path[10:]}"
            for words in re.findall(r"""["']([\w/.-]+\.(?:html|svg|txt|xml|js|css))["']""", text):
                if words in self.templates:
                    self._link(node, f"template {words}")
                else:
                    self.browsed[node].add(f"static {words}")
            for inside in re.findall(r"\{[{%](.*?)[%}]\}", text, re.S):
                for word in re.findall(r"[A-Za-z_]\w*", inside):
                    for home in homes.get(word, ()):
                        self._link(node, home)
                for name in ATTRIBUTE.findall(inside):
                    self._link(node, f".{name}")
            for attribute, name in re.findall(r"""([\w-]+)=["']\{% url ["'](\w+)["']""", text):
                if attribute not in ("href", "data-base", "data-queue"):
                    self.browsed[node] |= self.route_names.get(name, set())
        for path, text in self.texts.items():
            if path.startswith("static/") and path.endswith((".js", ".css")):
                for words in re.findall(r"""["']([\w/.-]+\.(?:js|css))["']""", text):
                    target = (Path(path).parent / words).as_posix()
                    steps: list[str] = []
                    for step in target.split("/")[1:]:
                        steps = steps[:-1] if step == ".." else [*steps, step] if step != "." else steps
                    self.browsed[f"static {path[7:]}"].add(f"static {'/'.join(steps)}")

    def _link_methods(self) -> None:
        """A method runs if its class is reached and its name is said, or if a base of others may call it."""
        classes = {part.node: part for parts in self.parts.values() for part in parts if part.bases}
        kinds: dict[str, bool] = {}

        def calls_nothing_else(node: str) -> bool:
            if node not in kinds:
                kinds[node] = True
                part = classes[node]
                for chain in CHAIN.findall(part.bases):
                    used = [one for one in self.resolved(node.partition(":")[0], chain) if not one.endswith(":*")]
                    own = [one for one in used if one in classes]
                    is_plain = all(map(calls_nothing_else, own)) if own else bool(used)
                    if not is_plain and not PLAIN_BASES.fullmatch(chain.rpartition(".")[2]):
                        kinds[node] = False
            return kinds[node]

        for parts in self.parts.values():
            for part in parts:
                if not part.owner or "." not in part.node.partition(":")[2]:
                    continue
                name = part.node.rpartition(".")[2]
                if HOOKS.fullmatch(name) or part.owner in classes and not calls_nothing_else(part.owner):
                    self._link(part.owner, part.node)
                else:
                    self.methods[f".{name}"].append((part.node, part.owner))

    def _link_registrations(self) -> None:
        """What is handed to a function when a module is loaded, or when apps are ready, is used by what it fills."""
        self.code = {part.node: part.code for parts in self.parts.values() for part in parts}
        for module, parts in self.parts.items():
            if module.startswith("tests."):
                continue
            for part in parts:
                name = part.node.partition(":")[2]
                if name == "" or name.endswith(".ready"):
                    for line in part.code.split("\n"):
                        if call := CALLED.match(line):
                            handed = [used for chain in CHAIN.findall(line) for used in self.resolved(module, chain)]
                            self._register(list(self.resolved(module, call[1])), handed)
                for decorator in re.findall(r"^ *@([\w.]+)", part.code, re.M):
                    self._register(list(self.resolved(module, decorator)), [part.node])

    def _register(self, registrars: list[str], handed: list[str]) -> None:
        for registrar in registrars:
            home = registrar.partition(":")[0]
            for name in STORED.findall(self.code.get(registrar, "")):
                for used in handed if name in self.names[home] else ():
                    self._link(f"{home}:{name}", used)

    def tests_with(self, helper: str, tests: Mapping[str, int]) -> int:
        """Return the tests that use a helper of tests, themselves or by other helpers."""
        users: Uses = defaultdict(set)
        for user, several in self.plain.items():
            for used in several if user.startswith("tests.") else ():
                users[used].add(user)
        seen, left = {helper}, [helper]
        while left:
            for user in users[left.pop()] - seen:
                seen.add(user)
                left.append(user)
        bits = 0
        for node in seen:
            bits |= tests.get(node, 0)
        return bits

    def changed(self, path: str, old: str | None) -> Iterator[str]:
        """Yield the definitions of a file that are new, gone or not as they were."""
        module = module_of(path)
        earlier = parts_of(module, old)[0] if old is not None else []
        shapes = [{(part.node, shape(part)) for part in parts} for parts in (earlier, self.parts.get(module, []))]
        yield from {node for node, _ in shapes[0] ^ shapes[1]}
        if old is None or module not in self.parts:
            return
        now = self.imports[module]
        then = imports_of(module, path, stripped(old)[0])[0]
        moved = {name for name in now.keys() | then.keys() if now.get(name) != then.get(name)}
        if moved:
            for part in self.parts[module]:
                if moved & set(re.findall(r"\w+", part.code)):
                    yield part.node
            yield from (f"{module}:{name}" for name in moved)

    def reading(self, path: str, seen: Mapping[str, int]) -> int:
        """Return the tests that read a file as text: they name it, or list a folder that it is in."""
        above = {EACH, *(parent.as_posix() for parent in Path(path).parents)} - {"."}
        named = {path} if path.endswith("__init__.py") else {path, Path(path).name}
        bits = 0
        for node, places, lists in self.readers:
            patterns = [place for place in places if "*/" in place]
            if (
                not named.isdisjoint(places)
                or lists
                and not (above.isdisjoint(places) and not any(fnmatch(path, pattern) for pattern in patterns))
            ):
                bits |= seen.get(node, 0)
        return bits

    def seen_by(self, tests: Mapping[str, int], spoken: int, running: int, browsed: int) -> dict[str, int]:
        """Return for each node the tests that reach it, as bits: `tests` begins with those of their own definitions."""
        seen: dict[str, int] = defaultdict(int)
        method_of: dict[str, str] = {}
        owned: dict[str, list[str]] = defaultdict(list)
        for name, pairs in self.methods.items():
            for used, owner in pairs:
                method_of[used] = name
                owned[owner].append(used)
        seen.update(tests)
        left = deque(tests)
        waiting = set(tests)
        while left:
            node = left.popleft()
            waiting.discard(node)
            bits = seen[node]
            for used in self.plain.get(node, ()):
                if bits & ~seen[used]:
                    seen[used] |= bits
                    if used not in waiting:
                        waiting.add(used)
                        left.append(used)
            more: list[tuple[Iterable[str], int]] = [
                (self.spoken.get(node, ()), bits & spoken),
                (self.running.get(node, ()), bits & running),
                (self.browsed.get(node, ()), bits & browsed),
            ]
            if node in self.methods:
                more += [((used,), bits & seen[owner]) for used, owner in self.methods[node]]
            for used in owned.get(node, ()):
                more.append(((used,), bits & seen[method_of[used]]))
            for several, some in more:
                for used in several:
                    if some & ~seen[used]:
                        seen[used] |= some
                        if used not in waiting:
                            waiting.add(used)
                            left.append(used)
        return seen


def is_bare(name: str, code: str) -> bool:
    """Tell whether code gives a module away, so that anything of it can be meant."""
    return bool(re.search(rf"(?<![\w.]){name}(?=\s*[,)\]}}\n])", code))


def wild(words: str) -> bool:
    """Tell whether a text is an address of which nothing is known."""
    return "/\0" in words and bool(re.fullmatch(r"[\0/\1]+", words))


def segments(address: str) -> list[str]:
    return address.strip("^$").removeprefix("/").split("/")
