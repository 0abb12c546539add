"""Checkpoints of transformers as GGUF files: a tiny one made here, read back by gguf's own reader."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter, dequantize
from safetensors.numpy import save_file

from awmweb.weights import WeightsError
from awmweb.weights.converting import convert, read_arrays

WIDTH, INNER, WORDS, HEADS, KV_HEADS = 8, 12, 20, 2, 1
SHAPES = {
    "model.embed_tokens.weight": ("token_embd.weight", (WORDS, WIDTH)),
    "model.norm.weight": ("output_norm.weight", (WIDTH,)),
    "model.layers.0.self_attn.q_proj.weight": ("blk.0.attn_q.weight", (WIDTH, WIDTH)),
    "model.layers.0.self_attn.k_proj.weight": ("blk.0.attn_k.weight", (WIDTH // 2, WIDTH)),
    "model.layers.0.self_attn.v_proj.weight": ("blk.0.attn_v.weight", (WIDTH // 2, WIDTH)),
    "model.layers.0.self_attn.o_proj.weight": ("blk.0.attn_output.weight", (WIDTH, WIDTH)),
    "model.layers.0.mlp.gate_proj.weight": ("blk.0.ffn_gate.weight", (INNER, WIDTH)),
    "model.layers.0.mlp.up_proj.weight": ("blk.0.ffn_up.weight", (INNER, WIDTH)),
    "model.layers.0.mlp.down_proj.weight": ("blk.0.ffn_down.weight", (WIDTH, INNER)),
    "model.layers.0.input_layernorm.weight": ("blk.0.attn_norm.weight", (WIDTH,)),
    "model.layers.0.post_attention_layernorm.weight": ("blk.0.ffn_norm.weight", (WIDTH,)),
}
Q = "model.layers.0.self_attn.q_proj.weight"


def checkpoint(folder: Path, **changed: np.ndarray | None) -> dict[str, np.ndarray]:
    """Save arrays that differ from each other and return them; `changed` replaces one by the end of its name."""
    random = np.random.default_rng(5)
    arrays = {name: random.normal(size=shape).astype(np.float32) for name, (_, shape) in SHAPES.items()}
    arrays |= {name: array for name, array in changed.items() if array is not None}
    for name in [name for name, array in changed.items() if array is None]:
        del arrays[name]
    folder.mkdir(exist_ok=True)
    save_file(arrays, folder / "model.safetensors")
    return arrays


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """The file that the checkpoint was trained from."""
    return like(tmp_path / "base.gguf")


def like(file: Path) -> Path:
    """Write a file of the arrays of `SHAPES`, all zero."""
    writer = GGUFWriter(file, "llama")
    writer.add_block_count(1)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_string("general.name", "Tiny")
    writer.add_token_list([f"t{number}" for number in range(WORDS)])
    writer.add_chat_template("old")
    for name, shape in SHAPES.values():
        writer.add_tensor(name, np.zeros(shape, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def test_a_checkpoint_has_its_arrays_and_its_bases_metadata(tmp_path: Path, base: Path) -> None:
    arrays = checkpoint(tmp_path / "merged")
    (tmp_path / "merged" / "chat_template.jinja").write_text("new")
    out = tmp_path / "after.gguf"
    assert convert(tmp_path / "merged", out, base) == len(SHAPES)
    after = GGUFReader(out)
    written = {tensor.name: tensor.data for tensor in after.tensors}
    for name, (there, shape) in SHAPES.items():
        assert written[there].dtype == (np.float32 if len(shape) == 1 else np.float16)
        if "q_proj" not in name and "k_proj" not in name:
            np.testing.assert_allclose(written[there].reshape(shape), arrays[name], rtol=1e-3, atol=1e-3)
    # row 2i of a head is dimension i of its first half, row 2i + 1 of its second
    np.testing.assert_allclose(
        written["blk.0.attn_q.weight"], arrays[Q][[0, 2, 1, 3, 4, 6, 5, 7]], rtol=1e-3, atol=1e-3
    )
    assert after.fields["general.name"].contents() == "Tiny"
    assert after.fields["tokenizer.chat_template"].contents() == "new"
    assert after.fields["tokenizer.ggml.tokens"].contents() == [f"t{number}" for number in range(WORDS)]


def test_rows_of_whole_blocks_can_have_a_byte_a_number(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setitem(SHAPES, "model.embed_tokens.weight", ("token_embd.weight", (WORDS, 64)))
    base = like(tmp_path / "wide.gguf")
    arrays = checkpoint(tmp_path / "merged")
    convert(tmp_path / "merged", tmp_path / "small.gguf", base, "q8_0")
    kinds = {tensor.name: tensor.tensor_type for tensor in GGUFReader(tmp_path / "small.gguf").tensors}
    assert {name for name, kind in kinds.items() if kind == GGMLQuantizationType.Q8_0} == {"token_embd.weight"}
    small = next(one for one in GGUFReader(tmp_path / "small.gguf").tensors if one.name == "token_embd.weight")
    values = dequantize(small.data, small.tensor_type)
    np.testing.assert_allclose(values, arrays["model.embed_tokens.weight"], atol=0.02)


def test_numbers_of_sixteen_bits_are_read_as_they_are(tmp_path: Path) -> None:
    values = np.array([1.0, -2.5, 0.0, 3.0e38], np.float32)
    halves = (values.view(np.uint32) >> 16).astype("<u2").tobytes()
    header = json.dumps({"a": {"dtype": "BF16", "shape": [4], "data_offsets": [0, 8]}}).encode()
    file = tmp_path / "model.safetensors"
    file.write_bytes(len(header).to_bytes(8, "little") + header + halves)
    ((name, array),) = read_arrays(file)
    assert name == "a"
    np.testing.assert_allclose(array, values, rtol=1e-2)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({Q: np.zeros((WIDTH, WIDTH + 1), np.float32)}, r"attn_q.weight has shape \(8, 9\), and \(8, 8\) in base"),
        ({"model.norm.weight": None}, "no array for output_norm.weight"),
        ({"model.extra.weight": np.zeros(3, np.float32)}, "no place for model.extra.weight"),
    ],
)
def test_a_checkpoint_of_another_model_is_refused(tmp_path: Path, base: Path, changed, words: str) -> None:
    checkpoint(tmp_path / "merged", **changed)
    with pytest.raises(WeightsError, match=words):
        convert(tmp_path / "merged", tmp_path / "after.gguf", base)
    assert not list(tmp_path.glob("after*")), "no half of a file is left"


def test_embeddings_that_are_saved_twice_are_written_once(tmp_path: Path, base: Path) -> None:
    embeddings = checkpoint(tmp_path / "merged")["model.embed_tokens.weight"]
    checkpoint(tmp_path / "merged", **{"lm_head.weight": embeddings})
    assert convert(tmp_path / "merged", tmp_path / "after.gguf", base) == len(SHAPES)
    checkpoint(tmp_path / "merged", **{"lm_head.weight": embeddings + 1})
    with pytest.raises(WeightsError, match="differs from the embeddings"):
        convert(tmp_path / "merged", tmp_path / "other.gguf", base)


def test_files_that_are_none_are_refused(tmp_path: Path, base: Path) -> None:
    merged, out = tmp_path / "merged", tmp_path / "after.gguf"
    merged.mkdir()
    with pytest.raises(WeightsError, match="no .safetensors"):
        convert(merged, out, base)
    (merged / "model.safetensors").write_bytes(b"\x00" * 6)
    with pytest.raises(WeightsError, match="not a safetensors file"):
        convert(merged, out, base)
    (merged / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"[]")
    with pytest.raises(WeightsError, match="its header cannot be read"):
        convert(merged, out, base)
    checkpoint(merged)
    whole = (merged / "model.safetensors").read_bytes()
    (merged / "model.safetensors").write_bytes(whole[:-8])
    with pytest.raises(WeightsError, match="is cut off"):
        convert(merged, out, base)
    with pytest.raises(WeightsError, match="not a GGUF file"):
        convert(merged, out, merged / "model.safetensors")
