"""What notices are sent to in tests: a web server that keeps what it is posted, a mail server that speaks SMTP, and a
browser's half of a push subscription, which decrypts as RFC 8291 has it, independently of the code that encrypts."""

from __future__ import annotations

import contextlib
import hmac
import itertools
import json
import socketserver
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

from cryptography.hazmat.primitives.asymmetric import ec, utils
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from notices.webpush import b64, unb64


@dataclass
class Posted:
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Receiver:
    """`answers` are given one after the other, the last one for ever: (status, headers)."""

    url: str = ""
    posted: list[Posted] = field(default_factory=list)
    answers: list[tuple[int, dict[str, str]]] = field(default_factory=lambda: [(201, {})])
    on_post: object = None
    says: bytes = b"thanks"


@contextlib.contextmanager
def receiver() -> Iterator[Receiver]:
    there = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            there.posted.append(Posted(self.path, {name.lower(): text for name, text in self.headers.items()}, body))
            if there.on_post is not None:
                there.on_post()
            status, headers = there.answers.pop(0) if len(there.answers) > 1 else there.answers[0]
            self.send_response(status)
            for name, text in headers.items():
                self.send_header(name, text)
            self.end_headers()
            self.wfile.write(there.says)

        def log_message(self, *args: object) -> None:
            """Tests are quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    there.url = f"http://127.0.0.1:{server.server_port}"
    with _serving(server):
        yield there


@contextlib.contextmanager
def _serving(server: socketserver.BaseServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass
class SlackServer:
    """`refuses`: the error of each method that is refused."""

    url: str = ""
    calls: list[tuple[str, dict]] = field(default_factory=list)
    refuses: dict[str, str] = field(default_factory=dict)

    def of(self, method: str) -> list[dict]:
        return [given for name, given in self.calls if name == method]


@contextlib.contextmanager
def slack_server() -> Iterator[SlackServer]:
    """A server that speaks as much of Slack's Web API as awmweb calls."""
    there, count = SlackServer(), itertools.count(1)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            is_json = self.headers["Content-Type"].startswith("application/json")
            given = json.loads(body) if is_json else {k: v for k, (v,) in parse_qs(body).items()}
            method = self.path.removeprefix("/api/")
            there.calls.append((method, {**given, "bearer": self.headers["Authorization"]}))
            refused = there.refuses.get(method)
            channel = given["channel"] if str(given.get("channel", "")).startswith("C") else "D1"
            made = {"ok": True, "channel": channel, "ts": f"1700000000.{next(count):06}"}
            answer = json.dumps({"ok": False, "error": refused} if refused else made).encode()
            self.send_response(429 if refused == "ratelimited" else 200)
            if refused == "ratelimited":
                self.send_header("Retry-After", "30")
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *args: object) -> None:
            """Tests are quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    there.url = f"http://127.0.0.1:{server.server_port}"
    with _serving(server):
        yield there


@dataclass
class Mailbox:
    port: int = 0
    mails: list[tuple[list[str], str]] = field(default_factory=list)
    refuses: bytes = b""
    refuses_text: bytes = b""


@contextlib.contextmanager
def mail_server() -> Iterator[Mailbox]:
    there = Mailbox()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(b"220 here\r\n")
            to: list[str] = []
            while line := self.rfile.readline().decode():
                verb = line[:4].upper().strip()
                if verb == "RCPT" and there.refuses:
                    self.wfile.write(there.refuses)
                    continue
                if verb == "RCPT":
                    to.append(line[line.index("<") + 1 : line.index(">")])
                if verb == "DATA":
                    self.wfile.write(b"354 go on\r\n")
                    there.mails.append((to, self._text()))
                refused = there.refuses_text if verb == "DATA" else b""
                self.wfile.write(b"221 bye\r\n" if verb == "QUIT" else refused or b"250 ok\r\n")
                if verb == "QUIT":
                    return

        def _text(self) -> str:
            lines = []
            while (line := self.rfile.readline()) != b".\r\n":
                lines.append(line.decode())
            return "".join(lines)

    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
    there.port = server.server_address[1]
    with _serving(server):
        yield there


class Browser:
    """The keys that a browser makes for one subscription."""

    def __init__(self, scalar: str = "", auth: bytes = b"0123456789abcdef") -> None:
        scalar_number = int.from_bytes(unb64(scalar), "big") if scalar else None
        curve = ec.SECP256R1()
        self.key = ec.derive_private_key(scalar_number, curve) if scalar_number else ec.generate_private_key(curve)
        self.public = self.key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        self.auth = auth
        self.secret = {"p256dh": b64(self.public), "auth": b64(auth)}

    def opened(self, body: bytes) -> bytes:
        """The plain text of an aes128gcm body of one record."""
        salt, theirs, sealed = body[:16], body[21 : 21 + body[20]], body[21 + body[20] :]
        shared = self.key.exchange(ec.ECDH(), ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), theirs))
        secret = hkdf(self.auth, shared, b"WebPush: info\x00" + self.public + theirs, 32)
        key = hkdf(salt, secret, b"Content-Encoding: aes128gcm\x00", 16)
        nonce = hkdf(salt, secret, b"Content-Encoding: nonce\x00", 12)
        padded = AESGCM(key).decrypt(nonce, sealed, None)
        assert padded.endswith(b"\x02"), "the last record ends with a 2"
        return padded[:-1]


def hkdf(salt: bytes, secret: bytes, info: bytes, size: int) -> bytes:
    return hmac.digest(hmac.digest(salt, secret, "sha256"), info + b"\x01", "sha256")[:size]


def claims_of(header: str) -> tuple[dict[str, object], str]:
    """What a VAPID header claims, its signature checked with the key beside it; and that key."""
    assert header.startswith("vapid ")
    parts = dict(part.strip().split("=", 1) for part in header.removeprefix("vapid ").split(","))
    head, claims, signed = parts["t"].split(".")
    assert json.loads(unb64(head)) == {"typ": "JWT", "alg": "ES256"}
    raw = unb64(signed)
    signature = utils.encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
    key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), unb64(parts["k"]))
    key.verify(signature, f"{head}.{claims}".encode(), ec.ECDSA(SHA256()))
    return json.loads(unb64(claims)), parts["k"]
