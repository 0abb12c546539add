"""A trained checkpoint, as transformers saves it, as a GGUF file for llama.cpp. Arrays are read one at a time."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import numpy as np

from awmweb.weights import WeightsError

TYPES = {"F32": np.dtype("<f4"), "F16": np.dtype("<f2"), "BF16": np.dtype("<u2")}
ARCHITECTURES = ("llama", "qwen2", "qwen3")
ROTATED = ("attn_q.weight", "attn_k.weight")
"""Arrays whose rows llama.cpp's `llama` orders by pairs, and transformers by halves."""
LARGEST_HEADER = 100_000_000
KINDS = {"f16": gguf.LlamaFileType.MOSTLY_F16, "q8_0": gguf.LlamaFileType.MOSTLY_Q8_0}
Q8_0, BLOCK = gguf.GGMLQuantizationType.Q8_0, 32


def convert(merged: Path, out: Path, like: Path, kind: str = "f16") -> int:
    """Write the weights of a checkpoint's folder to `out` with the metadata of `like`, the file that it was trained
    from, and return how many arrays were written: matrices as F16, the rest as F32. With `kind` q8_0, matrices whose
    rows are whole blocks have a byte for a number and a factor for each 32, which halves the file.

    Raises `WeightsError` if an array is missing, is one too many, or has another shape than in `like`.
    """
    base = _base(like)
    shapes = {tensor.name: tuple(int(size) for size in reversed(tensor.shape)) for tensor in base.tensors}
    unfinished = out.with_name(f"{out.name}.part")
    writer = gguf.GGUFWriter(unfinished, _field(base, "general.architecture"))
    _copy_metadata(base, writer, _template(merged), KINDS[kind])
    untied: np.ndarray | None = None
    embeddings = np.empty(0)
    try:
        for name, array in _arrays(merged, base):
            if name == "output.weight" and name not in shapes:
                untied = array  # of the embeddings, and saved beside them all the same
                continue
            expected = shapes.pop(name, None)
            if expected != array.shape:
                raise WeightsError(f"{name} has shape {array.shape}, and {expected} in {like.name}")
            if kind == "q8_0" and array.ndim > 1 and array.shape[-1] % BLOCK == 0:
                writer.add_tensor(name, gguf.quantize(array.astype(np.float32), Q8_0), raw_dtype=Q8_0)
            else:
                writer.add_tensor(name, array.astype(np.float32 if array.ndim == 1 else np.float16))
            embeddings = array if name == "token_embd.weight" else embeddings
        if shapes:
            raise WeightsError(f"{merged} has no array for {', '.join(sorted(shapes)[:5])}")
        if untied is not None and not np.array_equal(untied, embeddings):
            raise WeightsError(f"output.weight differs from the embeddings, and {like.name} has one array for both")
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        unfinished.replace(out)
    finally:
        unfinished.unlink(missing_ok=True)
    return len(base.tensors)


def _base(like: Path) -> Any:
    try:
        base = gguf.GGUFReader(like)
        architecture = _field(base, "general.architecture")
    except OSError:
        raise
    except Exception as error:  # the reader meets a broken file with errors of many kinds
        raise WeightsError(f"{like}: not a GGUF file ({error})") from error
    if architecture not in ARCHITECTURES:
        raise WeightsError(f"{like.name} is of architecture {architecture}; known are {', '.join(ARCHITECTURES)}")
    return base


def _field(base: Any, key: str) -> Any:
    return base.fields[key].contents()


def _copy_metadata(base: Any, writer: Any, template: str, file_type: int) -> None:
    written_by_writer = {"general.architecture", "general.file_type", "general.quantization_version"}
    for key, field in base.fields.items():
        if key.startswith("GGUF.") or key in written_by_writer or (template and key == "tokenizer.chat_template"):
            continue
        kind = field.types[0]
        writer.add_key_value(key, field.contents(), kind, field.types[1] if kind == gguf.GGUFValueType.ARRAY else None)
    if template:
        writer.add_chat_template(template)
    writer.add_file_type(file_type)


def _template(merged: Path) -> str:
    """Return the chat template that the checkpoint was trained with; empty if it has none."""
    own = merged / "chat_template.jinja"
    return own.read_text(encoding="utf-8") if own.is_file() else ""


def _arrays(merged: Path, base: Any) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the arrays of a checkpoint by llama.cpp's names, in its order of rows."""
    architecture = _field(base, "general.architecture")
    arch = next(key for key, name in gguf.MODEL_ARCH_NAMES.items() if name == architecture)
    names = gguf.get_tensor_name_map(arch, _field(base, f"{architecture}.block_count"))
    heads = _field(base, f"{architecture}.attention.head_count")
    kv_heads = _field(base, f"{architecture}.attention.head_count_kv")
    files = sorted(merged.glob("*.safetensors"))
    if not files:
        raise WeightsError(f"{merged} has no .safetensors file. Save the merged model with save_pretrained")
    for file in files:
        for saved, array in read_arrays(file):
            name = names.get_name(saved, try_suffixes=(".weight", ".bias"))
            if name is None:
                raise WeightsError(f"{file.name}: no place for {saved} in a model of architecture {architecture}")
            if architecture == "llama" and name.endswith(ROTATED):
                array = in_pairs(array, heads if "attn_q" in name else kv_heads)
            yield name, array


def in_pairs(rows: np.ndarray, heads: int) -> np.ndarray:
    """Order the rows of each head, two halves of rotated dimensions, as pairs. Shape (heads x size, inputs)."""
    size = rows.shape[0] // heads
    return rows.reshape(heads, 2, size // 2, rows.shape[1]).swapaxes(1, 2).reshape(rows.shape)


def read_arrays(file: Path) -> Iterator[tuple[str, np.ndarray]]:
    """Yield name and float32 values of each array of a safetensors file: eight bytes of length, a JSON header, data.

    numpy has no BF16, which is how most checkpoints are saved, so the package of the format cannot give it arrays.
    """
    size = file.stat().st_size
    with file.open("rb") as handle:
        length = int.from_bytes(handle.read(8), "little")
        if not 0 < length <= min(LARGEST_HEADER, size - 8):
            raise WeightsError(f"{file}: not a safetensors file")
        try:
            header = json.loads(handle.read(length))
            entries = [
                (name, TYPES[entry["dtype"]], [int(part) for part in entry["shape"]], *map(int, entry["data_offsets"]))
                for name, entry in header.items()
                if name != "__metadata__"
            ]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise WeightsError(f"{file}: its header cannot be read ({error})") from error
        for name, kind, shape, start, end in entries:
            if not 0 <= start <= end <= size - 8 - length or end - start != kind.itemsize * int(np.prod(shape)):
                raise WeightsError(f"{file}: {name} is cut off")
            handle.seek(8 + length + start, os.SEEK_SET)
            values = np.frombuffer(handle.read(end - start), kind).reshape(shape)
            yield name, as_floats(values)


def as_floats(values: np.ndarray) -> np.ndarray:
    """Return float32 values. A BF16 number is the upper half of a float32 one, read here as a whole number."""
    if values.dtype == TYPES["BF16"]:
        return (values.astype(np.uint32) << 16).view(np.float32)
    return values.astype(np.float32)
