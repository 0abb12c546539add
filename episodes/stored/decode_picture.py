"""The child in which a stranger's picture is read: bytes on stdin; its facts, bytes and thumbnail on stdout.

Owns its own limits, what of a file is kept, and the real decode. A picture is kept without its metadata and without
what follows its end. Its compressed pixels are copied as they are, with whatever a decoder skips among them: what a
browser makes of the bytes is for the headers of the reply. Imports nothing of the product: `decoding.py` runs this file
by its path.
"""

from __future__ import annotations

import io
import json
import re
import resource
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

PIXELS = 24_000_000
"""A screen of 6K has 20 million."""
SIDE = 16_384
THUMBNAILS = ((320, 70), (320, 45), (320, 25), (224, 25), (160, 20), (96, 10))
"""Side and quality, in the order in which they are tried."""
THUMBNAIL_BYTES = 8_500
"""A page of 100 pictures has less than 1 MB with them."""
MEMORY_BYTES, PROCESSOR_S = 500_000_000, 10
"""A WebP of the most pixels takes 420 MB. The limit of a web process in `deploy/helm` has room for one child."""
FIRST_TO_GO = "1000"
"""Where memory is short, the kernel ends this process, and not the one that serves everyone."""
PNG = b"\x89PNG\r\n\x1a\n"
PNG_CHUNKS = {b"IHDR", b"PLTE", b"tRNS", b"gAMA", b"cHRM", b"sRGB", b"IDAT", b"IEND"}
JPEG_SIZES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}
JPEG_SEGMENTS = JPEG_SIZES | {0xC4, 0xDA, 0xDB, 0xDD}
JPEG_APPS = {0xE0: (b"JFIF\0", 16), 0xEE: (b"Adobe", 14)}
"""What says how the colors are stored, and how long it is without a picture inside."""
_NEXT_MARKER = re.compile(rb"\xff[\x01-\xcf\xd8-\xfe]")
WEBP_CHUNKS = {b"VP8 ", b"VP8L", b"VP8X", b"ALPH"}
WEBP_HAS_ALPHA = 0x10
NO_PICTURE = "This is no PNG, JPEG or WebP picture that can be read."
TOO_LARGE_TO_READ = "This picture is too large to read. Send it with fewer pixels."
TOO_MANY_PIXELS = f"A picture can have at most {PIXELS // 1_000_000} million pixels, and {SIDE:,} on a side."
MOVES = "Only still pictures are stored. This one moves."


class NotTaken(Exception):
    """Why a picture is refused, for its sender."""


def stripped(data: bytes) -> tuple[str, bytes, tuple[int, int]]:
    """Return the type of a picture by its bytes, the bytes that are kept, and its size as its header has it."""
    if data.startswith(PNG):
        return "PNG", *_png(data)
    if data.startswith(b"\xff\xd8\xff"):
        return "JPEG", *_jpeg(data)
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "WEBP", *_webp(data)
    raise NotTaken(NO_PICTURE)


def _png(data: bytes) -> tuple[bytes, tuple[int, int]]:
    kept, place, name = [PNG], len(PNG), b""
    while name != b"IEND":
        length, name = struct.unpack_from(">I4s", data, place)
        end = place + 12 + length
        if end > len(data):
            raise NotTaken(NO_PICTURE)
        if name == b"acTL":  # of an APNG
            raise NotTaken(MOVES)
        if name in PNG_CHUNKS:
            kept.append(data[place:end])
        place = end
    return b"".join(kept), struct.unpack_from(">II", data, 16)


def _jpeg(data: bytes) -> tuple[bytes, tuple[int, int]]:
    kept, place, size = [b"\xff\xd8"], 2, (0, 0)
    while True:
        while data[place : place + 2] == b"\xff\xff":  # filling
            place += 1
        if data[place] != 0xFF:
            raise NotTaken(NO_PICTURE)
        marker = data[place + 1]
        if marker == 0xD9:
            return b"".join([*kept, b"\xff\xd9"]), size
        (length,) = struct.unpack_from(">H", data, place + 2)
        end, body = place + 2 + length, data[place + 4 : place + 2 + length]
        if end > len(data):
            raise NotTaken(NO_PICTURE)
        if marker in JPEG_SIZES:
            height, width = struct.unpack_from(">HH", body, 1)
            size = width, height
        if marker == 0xDA:  # the pixels follow, up to the next marker
            after = _NEXT_MARKER.search(data, end)
            if after is None:
                raise NotTaken(NO_PICTURE)
            end = after.start()
        start, most = JPEG_APPS.get(marker, (b"\0", 0))
        if marker in JPEG_SEGMENTS or (body.startswith(start) and length <= most):
            kept.append(data[place:end])
        place = end


def _webp(data: bytes) -> tuple[bytes, tuple[int, int]]:
    kept, size = list[bytes](), (0, 0)
    for name, body in _riff(data):
        if name in (b"ANIM", b"ANMF"):
            raise NotTaken(MOVES)
        if name not in WEBP_CHUNKS:
            continue
        if name == b"VP8X":
            size = tuple(int.from_bytes(body[at : at + 3], "little") + 1 for at in (4, 7))  # type: ignore[assignment]
            body = bytes([body[0] & WEBP_HAS_ALPHA]) + body[1:10]
        elif name != b"ALPH" and size == (0, 0):
            size = _webp_size(name, body)
        kept.append(name + struct.pack("<I", len(body)) + body + b"\0" * (len(body) % 2))
    chunks = b"".join(kept)
    return b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WEBP" + chunks, size


def _riff(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    place, end = 12, min(len(data), 8 + struct.unpack_from("<I", data, 4)[0])
    while place + 8 <= end:
        name, length = struct.unpack_from("<4sI", data, place)
        if place + 8 + length > end:
            raise NotTaken(NO_PICTURE)
        yield name, data[place + 8 : place + 8 + length]
        place += 8 + length + length % 2


def _webp_size(name: bytes, body: bytes) -> tuple[int, int]:
    if name == b"VP8L":
        bits = int.from_bytes(body[1:5], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    width, height = struct.unpack_from("<HH", body, 6)
    return width & 0x3FFF, height & 0x3FFF


def read_picture(data: bytes) -> tuple[dict[str, object], bytes, bytes]:
    """Return the facts of a picture, its bytes and its thumbnail, after all of its pixels were decoded."""
    kind, kept, size = stripped(data)
    if min(size) < 1:
        raise NotTaken(NO_PICTURE)
    if max(size) > SIDE or size[0] * size[1] > PIXELS:
        raise NotTaken(TOO_MANY_PIXELS)
    from PIL import Image  # after the limits of this process

    image = Image.open(io.BytesIO(kept), formats=[kind])
    if image.size != size:
        raise NotTaken(NO_PICTURE)
    image.load()
    mode = "RGBA" if image.has_transparency_data else "RGB"
    small = image if image.mode == mode else image.convert(mode)  # a copy of all pixels
    for side, quality in THUMBNAILS:
        small.thumbnail((side, side))
        if (side, quality) == THUMBNAILS[-1] and mode == "RGBA":  # WebP writes transparency without loss
            small = Image.alpha_composite(Image.new(mode, small.size, "white"), small).convert("RGB")
        written = io.BytesIO()
        small.save(written, "WEBP", quality=quality)
        if written.tell() <= THUMBNAIL_BYTES:
            break
    facts = {"media_type": f"image/{kind.lower()}", "width": size[0], "height": size[1], "bytes": len(kept)}
    return facts, kept, written.getvalue()


def main() -> None:
    """Read one picture. What the decoder cannot read ends this process with an error, which is an answer, too."""
    for which, most in ((resource.RLIMIT_CPU, PROCESSOR_S), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_CORE, 0)):
        resource.setrlimit(which, (most, most))
    if sys.platform == "linux":  # others do not count it so
        Path("/proc/self/oom_score_adj").write_text(FIRST_TO_GO)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    try:
        facts, kept, thumbnail = read_picture(sys.stdin.buffer.read())
    except (NotTaken, MemoryError) as refusal:
        problem = str(refusal) if isinstance(refusal, NotTaken) else TOO_LARGE_TO_READ
        facts, kept, thumbnail = {"problem": problem}, b"", b""
    sys.stdout.buffer.write(json.dumps(facts).encode() + b"\n" + kept + thumbnail)


if __name__ == "__main__":
    main()
