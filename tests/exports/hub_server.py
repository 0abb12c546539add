"""A local server that speaks the part of the Hub's protocol that a push uses: repository, preupload, LFS, commit."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOKEN = "hf_" + "goodToken" * 4


class Hub(BaseHTTPRequestHandler):
    """Large files (below `data/`) are asked for by LFS, all others come inside the commit."""

    def do_GET(self):
        if self.path == "/api/whoami-v2" and self.headers.get("Authorization") == f"Bearer {TOKEN}":
            return self.say(200, {"type": "user", "name": "ada", "orgs": []})
        return self.say(404, {"error": self.path})

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return self.say(401, {"error": "Invalid credentials in Authorization header"})
        if self.path == "/api/repos/create":
            asked = json.loads(body)
            name = f"{asked['organization']}/{asked['name']}"
            self.server.made[name] = asked
            return self.say(200, {"url": f"{self.server.url}/datasets/{name}", "id": name})
        if self.path == "/api/validate-yaml":
            return self.say(200, {"errors": [], "warnings": []})
        if "/preupload/" in self.path:
            modes = [
                {"path": one["path"], "uploadMode": self.mode(one["path"]), "shouldIgnore": False}
                for one in json.loads(body)["files"]
            ]
            return self.say(200, {"files": modes})
        if self.path.endswith("/info/lfs/objects/batch"):
            return self.say(
                200, {"transfer": "basic", "objects": [self.action(one) for one in json.loads(body)["objects"]]}
            )
        if "/commit/" in self.path:
            return self.commit([json.loads(line) for line in body.splitlines()])
        return self.say(404, {"error": self.path})

    def do_PUT(self):
        stored = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.blobs[hashlib.sha256(stored).hexdigest()] = stored
        self.say(200, {})

    def mode(self, path):
        return "lfs" if path.startswith("data/") else "regular"

    def action(self, one):
        return {**one, "actions": {"upload": {"href": f"{self.server.url}/store/{one['oid']}"}}}

    def commit(self, lines):
        for line in lines:
            value = line["value"]
            if line["key"] == "file":
                self.server.files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                self.server.files[value["path"]] = self.server.blobs[value["oid"]]
        self.server.commits += 1
        self.say(200, {"commitUrl": f"{self.server.url}/datasets/lab/rows/commit/abc", "commitOid": "abc"})

    def say(self, status, value):
        text = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        """Keep the output of tests short."""


@contextlib.contextmanager
def hub():
    """A running server with `url`, `files` as committed, `made` repositories and the number of `commits`."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    server.url = f"http://127.0.0.1:{server.server_port}"
    server.files, server.blobs, server.made, server.commits = {}, {}, {}, 0
    running = threading.Thread(target=server.serve_forever, daemon=True)
    running.start()
    try:
        yield server
    finally:
        server.shutdown()
        running.join()
        server.server_close()
