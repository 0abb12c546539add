"""Two versions serve one database behind nginx, under load: no 5xx, no lost step, no page without its files.

The release beside this version, after the migrations of this version: a person stays with one process, by the cookie
(`docs/proxy/nginx.conf`), and agents go to both. This version beside a next one with other static files: in turn.
"""

from __future__ import annotations

import itertools
import random
import re
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import ExitStack, contextmanager
from urllib.parse import urljoin, urlsplit

import httpx
import pytest

from tests.browser.long_episode import seqs
from tests.chaos.test_upgrade import earlier
from tests.commands import ROOT
from tests.running import free_ports, product, until

LOAD_S = 20
PATIENCE_S = 600
"""How long a slow machine may need until each kind of request was served by both versions."""
KINDS = ("start", "append", "ask", "claim", "page", "file")
PAGES = ("/", "/queue/", "/episodes/", "/runs/", "/exports/", "/reviews/", "/routing/")
ASSETS = re.compile(r"""<(?:script|link)\b[^>]*?\b(?:src|href)="(/static/[^"]+|static/[^"]+)\"""")
IMPORTS = re.compile(r"""(?:^|[\s;}])(?:import|from)\s*\(?["'](\.{1,2}/[^"']+)["']""", re.MULTILINE)
STICKY = 'map $http_cookie $of_one_person { "~awmweb_session[^=]*=(?<session>[^;]+)" $session; default $request_id; }'


def nginx_or_skip():
    found = shutil.which("nginx") or shutil.which("/usr/sbin/nginx")
    return found or pytest.skip("nginx is not installed here")


@contextmanager
def web(code, house, port):
    """A web process of this code on the product's database and queue."""
    command = [sys.executable, "-m", "uvicorn", "awmweb.asgi:application", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--ws", "episodes.live.wire:FrameSocket", "--ws-per-message-deflate", "false", "--log-level", "warning"]
    log = house.var / f"web-{port}.log"
    # the address that people open stays that of the product: the name of the session's cookie follows from it
    address = {"AWMWEB_PORT": str(port), "AWMWEB_PUBLIC_URL": house.url}
    environment = house.environment | {"DJANGO_SETTINGS_MODULE": "awmweb.settings", **address}
    with log.open("w") as out:
        process = subprocess.Popen(command, cwd=code, env=environment, stdout=out, stderr=out)
        try:
            until(lambda: healthy(port) or process.poll() is not None, 120, 0.2)
            assert process.poll() is None, log.read_text()[-3000:]
            yield process
        finally:
            process.terminate()
            process.wait(30)


def healthy(port):
    try:
        return httpx.get(f"http://127.0.0.1:{port}/health", timeout=3).status_code == 200
    except httpx.HTTPError:
        return False


@contextmanager
def balanced(folder, ports, *, sticky=False, sockets=0):
    """nginx in front of these web processes; who has a session stays with one of them, if `sticky`. All sockets go to
    the port `sockets`, if there is one."""
    (port,) = free_ports(1)
    servers = "".join(f"server 127.0.0.1:{one};" for one in ports)
    by = "hash $of_one_person consistent;" if sticky else ""
    text = f"""
    pid {folder}/nginx.pid; error_log {folder}/nginx.log; daemon off; worker_processes 1;
    events {{}}
    http {{ access_log off; {STICKY if sticky else ""}
      client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
      fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
      upstream web {{ {by} {servers} }}
      server {{ listen 127.0.0.1:{port}; location /ws/ {{
        proxy_pass http://{f"127.0.0.1:{sockets}" if sockets else "web"}; proxy_http_version 1.1;
        proxy_set_header Host $http_host; proxy_set_header Upgrade $http_upgrade;
        proxy_set_header Connection upgrade; }} location / {{
        proxy_pass http://web; proxy_http_version 1.1; proxy_set_header Host $http_host; proxy_buffering off;
        proxy_set_header Connection ""; add_header X-Web $upstream_addr always; }} }} }}
    """
    (folder / "nginx.conf").write_text(text)
    process = subprocess.Popen([nginx_or_skip(), "-c", folder / "nginx.conf"], stderr=subprocess.DEVNULL)
    try:
        until(lambda: healthy(port), 30, 0.2)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(20)


class Crew:
    """Loops, an expert and readers of pages through one address, until the time is over."""

    def __init__(self, house, url):
        self.house, self.url = house, url
        self.seen, self.problems, self.stored = Counter(), [], {}
        self.tokens = {scope: house.token(scope) for scope in ("agent", "expert")}

    def client(self, scope):
        return httpx.Client(
            base_url=f"{self.url}/api/v1", headers={"Authorization": f"Bearer {self.tokens[scope]}"}, timeout=40
        )

    def noted(self, what, answer, *expected):
        self.seen[what, answer.headers.get("x-web", "?")] += 1
        if answer.status_code not in (expected or (200,)):
            self.problems.append((what, answer.request.url.path, answer.status_code, answer.text[:200]))
        return answer

    def loop(self, number):
        """Start episodes, append, ask once each, take the advice, finish."""
        with self.client("agent") as agent:
            for turn in itertools.count():
                if self.is_over():
                    return
                key = f"loop-{number}-{turn}"
                body = {"key": key, "task": "Shut the ticket", "expert": "plain"}
                one = self.noted("start", agent.post("/episodes", json=body), 201).json()["id"]
                for at in range(1, 13, 3):
                    steps = [{"seq": at + n, "kind": "note", "content": f"{key} {at + n}"} for n in range(3)]
                    self.noted("append", agent.post(f"/episodes/{one}/steps", json={"steps": steps}))
                ask = {"key": key, "episode": one, "seq": 13, "question": "Which?", "deadline_s": 300}
                asked = self.noted("ask", agent.post("/asks", json=ask), 201).json()
                while asked.get("status") == "open" and time.monotonic() < self.last + 30:
                    asked = self.noted("poll", agent.get(f"/asks/{asked['id']}", params={"wait": 5})).json()
                if asked.get("status") != "answered":
                    self.problems.append(("ask", key, asked))
                self.noted("consumed", agent.post(f"/asks/{asked['id']}/consumed", json={}))
                self.noted("heartbeat", agent.post(f"/episodes/{one}/heartbeat"))
                last = {"steps": [{"seq": 14, "kind": "note", "content": "last"}]}
                self.noted("append", agent.post(f"/episodes/{one}/steps", json=last))
                self.noted("finish", agent.post(f"/episodes/{one}/finish", json={"stop_reason": "done"}))
                self.stored[one] = 14

    def expert(self):
        with self.client("expert") as expert:
            while time.monotonic() < self.last + 20 and any(one.is_alive() for one in self.loops):
                for ask in self.noted("asks", expert.get("/asks", params={"status": "open"})).json()["asks"]:
                    lease = self.noted("claim", expert.post(f"/asks/{ask['id']}/claim", json={}), 200, 409).json()
                    if "assignment" in lease:
                        said = {"lease_token": lease["lease_token"], "text": "This one.", "nonce": ask["id"]}
                        self.noted("answer", expert.post(f"/assignments/{lease['assignment']}/answer", json=said))
                time.sleep(0.05)

    def reader(self, link):
        """Read pages as a browser does: each with all of its files, and what these import."""
        with httpx.Client(base_url=self.url, timeout=40, follow_redirects=True) as browser:
            self.noted("sign in", browser.get(urlsplit(link).path))
            dice = random.Random(link)
            while not self.is_over():
                path = dice.choice(PAGES)
                if self.stored and dice.random() < 0.5:
                    path = f"/episodes/{dice.choice(list(self.stored))}"
                page = self.noted("page", browser.get(path, headers={"Accept": "text/html"}))
                if "/login" in page.url.path or "</html>" not in page.text:
                    self.problems.append(("page", path, "no page", page.url.path))
                self.files(browser, ASSETS.findall(page.text))

    def files(self, browser, wanted):
        seen, wanted = set(), list(wanted)
        assert wanted, "a page without files"
        while wanted:
            path = wanted.pop()
            if path in seen:
                continue
            seen.add(path)
            file = self.noted("file", browser.get(path))
            if path.endswith(".js") and "/vendor/" not in path:
                wanted += [urljoin(path, one) for one in IMPORTS.findall(file.text)]

    def is_over(self):
        """Whether the load lasted long enough, and each version served each kind of request."""
        now = time.monotonic()
        return now > self.first and (now > self.last or all(self.served(kind) == self.ports for kind in KINDS))

    def served(self, what):
        return {web.rpartition(":")[2] for kind, web in self.seen.copy() if kind == what}

    def work(self, links, ports):
        self.first, self.last = time.monotonic() + LOAD_S, time.monotonic() + PATIENCE_S
        self.ports = {str(port) for port in ports}
        self.loops = [threading.Thread(target=self.loop, args=(number,)) for number in range(3)]
        others = [threading.Thread(target=self.reader, args=(link,)) for link in links]
        everyone = [*self.loops, *others, threading.Thread(target=self.expert)]
        for one in everyone:
            one.start()
        for one in everyone:
            one.join(PATIENCE_S + 120)

    def check(self):
        assert not self.problems, self.problems[:10]
        for what in KINDS:
            assert self.served(what) == self.ports, what
        assert len(self.stored) >= 3
        with self.client("agent") as agent:
            for one, last in self.stored.items():
                steps = agent.get(f"/episodes/{one}/steps", params={"limit": 100}).json()["steps"]
                assert [step["seq"] for step in steps] == list(range(1, last + 1))
                assert steps[12]["advice"]["text"] == "This one."
        by = Counter()
        for (what, _), count in self.seen.items():
            by[what] += count
        print(f"{len(self.stored)} episodes, {dict(by)}, no 5xx")


@contextmanager
def chromium():
    """A browser in a thread's own loop; the test is skipped without one."""
    from playwright.sync_api import sync_playwright

    from tests.browser.conftest import ARGUMENTS, SHELL, WHOLE

    path = next((found for name in (SHELL, *WHOLE) if (found := shutil.which(name))), None)
    if path is None:
        pytest.skip("no Chromium was found")
    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield started
        started.close()


def follow(house, folder, ports, link):
    """Watch an episode on a page of one version, whose socket is one of the other, while agents append through both.

    No step is missing, in order and without a reload, and no script throws. Then the ask that it opens is shown in
    the queue, which a socket of the other version reports.
    """
    page_of, socket_of = ports
    token, problems = house.token("agent"), []
    with balanced(folder, [page_of], sockets=socket_of) as url, chromium() as started:
        page = started.new_context(base_url=url).new_page()
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("response", lambda got: problems.append((got.status, got.url)) if got.status >= 400 else None)
        page.goto(urlsplit(link).path)
        agents = [
            httpx.Client(
                base_url=f"http://127.0.0.1:{port}/api/v1", headers={"Authorization": f"Bearer {token}"}, timeout=40
            )
            for port in ports
        ]
        body = {"key": f"live-{page_of}", "task": "Shut the ticket", "expert": "plain"}
        one = agents[0].post("/episodes", json=body).json()["id"]
        page.goto(f"/episodes/{one}")
        page.evaluate("window.sameDocument = true")
        for seq in range(1, 41):
            steps = [{"seq": seq, "kind": "tool_call", "name": "look", "arguments": {"n": seq}, "result": "x"}]
            got = agents[seq % 2].post(f"/episodes/{one}/steps", json={"steps": steps})
            assert got.status_code == 200, got.text
        until(lambda: len(seqs(page)) >= 40, 60)
        assert seqs(page) == list(range(1, 41)) and page.evaluate("window.sameDocument") is True
        page.goto("/queue/")
        page.evaluate("window.sameDocument = true")
        ask = {"key": f"live-{page_of}", "episode": one, "seq": 41, "question": f"Which one of {page_of}?"}
        assert agents[1].post("/asks", json={**ask, "deadline_s": 300}).status_code == 201
        until(lambda: f"Which one of {page_of}?" in page.content(), 60)
        assert page.evaluate("window.sameDocument") is True
        for agent in agents:
            agent.close()
    assert not problems, problems[:10]


def migrate(code, house):
    command = [sys.executable, "manage.py", "migrate", "--no-input", "--verbosity", "0"]
    done = subprocess.run(command, cwd=code, env=house.environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def people(house, count):
    return [house.link(f"person{number}", "admin") for number in range(count)]


@pytest.mark.chaos
def test_release_serves_beside_this_version(tmp_path):
    nginx_or_skip()
    tmp_path.chmod(0o711)
    var = tmp_path / "var"
    var.mkdir()
    with product(var, code=earlier(tmp_path / "code"), AWMWEB_HEARTBEAT_S="90") as house, ExitStack() as stack:
        links = people(house, 6)
        migrate(ROOT, house)
        (port,) = free_ports(1)
        stack.enter_context(web(ROOT, house, port))
        ports = (urlsplit(house.url).port, port)
        crew = Crew(house, stack.enter_context(balanced(tmp_path, ports, sticky=True)))
        crew.work(links, ports)
        crew.check()
        for number, pair in enumerate((ports, ports[::-1])):
            (folder := tmp_path / f"live-{number}").mkdir()
            follow(house, folder, pair, house.link(f"watcher{number}", "admin"))


def next_version(folder):
    """Copy this version, with a script elsewhere and one more."""
    left_out = shutil.ignore_patterns(".venv", "var", "node_modules", ".git", "dist", "*_cache", "__pycache__", "tests")
    shutil.copytree(ROOT, folder, ignore=left_out, symlinks=True)
    (folder / "static" / "next").mkdir()
    (folder / "static" / "theme.js").rename(folder / "static" / "next" / "theme.js")
    base = folder / "templates" / "base.html"
    base.write_text(base.read_text().replace("'theme.js'", "'next/theme.js'"))
    return folder


@pytest.mark.chaos
def test_this_version_serves_beside_the_next(tmp_path):
    nginx_or_skip()
    tmp_path.chmod(0o711)
    with product(AWMWEB_HEARTBEAT_S="90") as house, ExitStack() as stack:
        (port,) = free_ports(1)
        stack.enter_context(web(next_version(tmp_path / "code"), house, port))
        ports = (urlsplit(house.url).port, port)
        crew = Crew(house, stack.enter_context(balanced(tmp_path, ports)))
        crew.work(people(house, 3), ports)
        crew.check()
        for number, pair in enumerate((ports, ports[::-1])):
            (folder := tmp_path / f"live-{number}").mkdir()
            follow(house, folder, pair, house.link(f"watcher{number}", "admin"))
