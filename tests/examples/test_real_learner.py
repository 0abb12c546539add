"""The learner of `make train-real` on a random model of its shape: each kind of round, and one that is killed."""

from __future__ import annotations

import json

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from awmweb.weights.serving import CHATML

torch = pytest.importorskip("torch")
from safetensors.torch import load_file  # noqa: E402
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast  # noqa: E402

from examples.train_real import learner  # noqa: E402

pytestmark = pytest.mark.train
CALL = {"type": "function", "function": {"name": "close", "arguments": {"ticket": 7}}}
TOOL = {"type": "function", "function": {"name": "close", "parameters": {"type": "object"}}}
ASKED = [{"role": "user", "content": "Close it."}]


def called():
    return {"role": "assistant", "content": "", "tool_calls": [CALL]}


def words(text):
    return {"role": "assistant", "content": text}


SFT = [
    {"messages": [*ASKED, called(), {"role": "tool", "content": "closed"}, words(f"done {at}")], "loss": [0, 1, 0, 1]}
    | {"tools": [TOOL]}
    for at in range(3)
]
DPO = [{"prompt": ASKED, "chosen": [called()], "rejected": [words("It is closed.")], "tools": [TOOL]}]
GRPO = [{"ids": [5, 6, 7, 8], "mask": [0, 0, 1, 1], "lead": lead, "logps": [-4.0, -4.0]} for lead in (0.5, -0.5)]


@pytest.fixture
def begin(tmp_path):
    """A checkpoint with the layers of SmolLM2 and next to no width, whose tokens are bytes."""
    torch.manual_seed(3)
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens = Tokenizer(models.BPE({letter: at for at, letter in enumerate(letters)}, []))
    tokens.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    shape = {"hidden_size": 8, "intermediate_size": 16, "num_attention_heads": 2, "num_key_value_heads": 1}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=len(letters), num_hidden_layers=30, **shape))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=tokens)
    tokenizer.chat_template = CHATML.read_text()
    for part in (model, tokenizer):
        part.save_pretrained(tmp_path / "begin")
    return tmp_path / "begin"


def weights(folder):
    return load_file(folder / "model.safetensors")


@pytest.mark.parametrize(("kind", "rows"), [("sft", SFT), ("dpo", DPO), ("grpo", GRPO)])
def test_each_kind_of_round_learns(begin, tmp_path, kind, rows):
    out = tmp_path / kind
    learner.trained(kind, begin, rows, out, 3, 1)
    took = json.loads((out / "took.json").read_text())
    assert took["steps"] == 3 and took["tokens"] > 3
    before, after = weights(begin), weights(out)
    assert before.keys() == after.keys(), "adapters are merged in"
    changed = {int(name.split(".")[2]) for name in before if not torch.equal(before[name], after[name])}
    assert changed and changed <= {*learner.UPPER}


def test_killed_training_ends_as_one_that_was_not(begin, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(learner, "KEPT_EVERY", 2)
    learner.trained("sft", begin, SFT, tmp_path / "whole", 6, 1)
    shown = learner.Progress.words

    def killed(self, steps):
        if len(self.losses) == 5:
            raise KeyboardInterrupt
        return shown(self, steps)

    with monkeypatch.context() as patch:
        patch.setattr(learner.Progress, "words", killed)
        with pytest.raises(KeyboardInterrupt):
            learner.trained("sft", begin, SFT, tmp_path / "killed", 6, 1)
    assert not (tmp_path / "killed").exists(), "half a training is no checkpoint"
    capsys.readouterr()
    learner.trained("sft", begin, SFT, tmp_path / "killed", 6, 1)
    lines = [line for line in capsys.readouterr().out.splitlines() if "loss" in line]
    assert [line.split(":")[0].strip() for line in lines] == ["sft 5/6", "sft 6/6"]
    assert lines[-1].endswith("about 0 s left")
    whole, again = weights(tmp_path / "whole"), weights(tmp_path / "killed")
    assert all(torch.equal(whole[name], again[name]) for name in whole)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["begin", "killed", "whole"], "nothing is left beside it"


def test_steps_take_every_row_before_any_again():
    order = [learner.turn(step, 5, 1) for step in range(1, 16)]
    assert [sorted(order[at : at + 5]) for at in (0, 5, 10)] == [[0, 1, 2, 3, 4]] * 3
    assert order[:5] != order[5:10] and order != [learner.turn(step, 5, 2) for step in range(1, 16)]
