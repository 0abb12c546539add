"""Pictures for tests: as programs write them, and as an attacker does."""

from __future__ import annotations

import io
import struct
import zlib

from PIL import Image

HTML = b"<!DOCTYPE html><script>alert(1)</script>"
SVG = b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>"


def drawn(kind: str = "PNG", size: tuple[int, int] = (640, 400), shade: int = 0, **options: object) -> bytes:
    """Return a picture in which something is drawn."""
    image = Image.linear_gradient("L").resize(size).convert("RGB")
    image.paste((200, shade % 256, 90), (size[0] // 4, size[1] // 4, size[0] // 2, size[1] // 2))
    written = io.BytesIO()
    image.save(written, kind, **options)
    return written.getvalue()


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def bomb(side: int = 30_000) -> bytes:
    """Return a PNG of a few kilobytes that has 900 million pixels."""
    squeezed = zlib.compressobj(9)
    row = b"\0" * (side // 8 + 1)
    rows = b"".join(squeezed.compress(row) for _ in range(side)) + squeezed.flush()
    head = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def vast(kind: str, mode: str, pixels: int, **options: object) -> bytes:
    """Return a picture of one color with this number of pixels, in few bytes."""
    side = int(pixels**0.5)
    written = io.BytesIO()
    Image.new(mode, (side, side)).save(written, kind, **options)
    return written.getvalue()
