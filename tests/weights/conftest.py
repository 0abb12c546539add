"""The model of the package, served as a person serves it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.running import ROOT


@contextmanager
def served(name: str) -> Iterator[str]:
    """Serve a model on a free port until the test is done, and give its base URL."""
    with serving(name) as (url, _):
        yield url


@contextmanager
def serving(name: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Do the same, and give the process, too."""
    command = [sys.executable, "manage.py", "model", "serve", name, "--port", "0"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:  # ends if the process does
            lines.append(line)
            if line.startswith("model ready: "):
                break
        assert lines and lines[-1].startswith("model ready: "), lines
        yield lines[-1].split()[-1], process
    finally:
        process.terminate()
        assert process.wait() == 0
        process.stdout.close()


@pytest.fixture(scope="module")
def smollm2() -> Iterator[str]:
    with served("smollm2") as url:
        yield url


@pytest.fixture
def merged(tmp_path: Path) -> Path:
    """The packaged weights as transformers would save them: full numbers, and rows of heads in halves."""
    import numpy as np
    from gguf import MODEL_ARCH, GGUFReader, dequantize, get_tensor_name_map
    from safetensors.numpy import save_file

    from awmweb.weights.serving import packaged

    base = GGUFReader(packaged())
    blocks, heads, kv_heads = (
        base.fields[f"llama.{name}"].contents()
        for name in ("block_count", "attention.head_count", "attention.head_count_kv")
    )
    names = get_tensor_name_map(MODEL_ARCH.LLAMA, blocks)
    parts = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj")
    parts += ("mlp.up_proj", "mlp.down_proj", "input_layernorm", "post_attention_layernorm")
    saved = [f"model.layers.{block}.{part}.weight" for block in range(blocks) for part in parts]
    there = {
        names.get_name(name, (".weight",)): name for name in (*saved, "model.embed_tokens.weight", "model.norm.weight")
    }
    arrays = {}
    for tensor in base.tensors:
        array = np.asarray(dequantize(tensor.data, tensor.tensor_type), np.float32)
        many = {"attn_q": heads, "attn_k": kv_heads}.get(tensor.name.split(".")[-2], 0)
        if many:
            size = array.shape[0] // many
            array = array.reshape(many, size // 2, 2, -1).swapaxes(1, 2).reshape(array.shape)
        arrays[there[tensor.name]] = np.ascontiguousarray(array)
    save_file(arrays, tmp_path / "model.safetensors")
    return tmp_path
