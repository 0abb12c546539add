"""Web Push, pure: a message that only one browser can read (RFC 8291), and the sender's identity (VAPID, RFC 8292).

Leaves the request to `sending.py`. Called there and by the page that gives browsers our public key.
"""

from __future__ import annotations

import base64
import json
import os
import struct

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

CURVE = ec.SECP256R1()
RECORD_BYTES = 4096
TOKEN_LIFE_S = 12 * 3600


def b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def unb64(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def private(scalar: str) -> ec.EllipticCurvePrivateKey:
    return ec.derive_private_key(int.from_bytes(unb64(scalar), "big"), CURVE)


def public(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


def application_key(scalar: str) -> str:
    """Return our public key as browsers take it."""
    return b64(public(private(scalar)))


def encrypted(
    plain: bytes, p256dh: str, auth: str, *, once: ec.EllipticCurvePrivateKey | None = None, salt: bytes | None = None
) -> bytes:
    """Return a body of content encoding aes128gcm, one record. `once` and `salt` are fresh for every message."""
    once, salt, theirs = once or ec.generate_private_key(CURVE), salt or os.urandom(16), unb64(p256dh)
    shared = once.exchange(ec.ECDH(), ec.EllipticCurvePublicKey.from_encoded_point(CURVE, theirs))
    ours = public(once)
    secret = _derived(unb64(auth), shared, b"WebPush: info\0" + theirs + ours, 32)
    key = _derived(salt, secret, b"Content-Encoding: aes128gcm\0", 16)
    nonce = _derived(salt, secret, b"Content-Encoding: nonce\0", 12)
    head = salt + struct.pack(">IB", RECORD_BYTES, len(ours)) + ours
    return head + AESGCM(key).encrypt(nonce, plain + b"\x02", None)


def _derived(salt: bytes, secret: bytes, info: bytes, size: int) -> bytes:
    return HKDF(algorithm=hashes.SHA256(), length=size, salt=salt, info=info).derive(secret)


def authorization(scalar: str, audience: str, subject: str, now: float) -> str:
    """Return the header that identifies us to this push service only."""
    key = private(scalar)
    claims = {"aud": audience, "exp": int(now) + TOKEN_LIFE_S, "sub": subject}
    signed = ".".join(b64(json.dumps(part).encode()) for part in ({"typ": "JWT", "alg": "ES256"}, claims))
    r, s = decode_dss_signature(key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
    return f"vapid t={signed}.{b64(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}, k={b64(public(key))}"
