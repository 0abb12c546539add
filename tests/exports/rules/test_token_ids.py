"""Rows of token ids: which tokens carry loss, for which the id of a dataset stands, and what is refused."""

from __future__ import annotations

import json
import re
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exports.assembly.building import Walk
from exports.errors import BadRecipe
from exports.formats import FORMATS
from exports.recipe import Recipe
from exports.rules import tokenizing
from exports.rules.leakage import Ground
from tests.exports.records import STEPS, record, walk

MARKS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
PLAIN = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}{% generation %}{{ m.content }}"
    "{% for c in m.tool_calls or [] %}{{ c.function | tojson }}{% endfor %}<|im_end|>{% endgeneration %}"
    "{% else %}{{ m.content }}<|im_end|>{% endif %}\n{% endfor %}"
)


def tokenizer_in(folder, template):
    """A small byte-level tokenizer as trainers save it."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    folder.mkdir(parents=True)
    words = Tokenizer(models.BPE())
    words.pre_tokenizer, words.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    letters = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=MARKS, initial_alphabet=letters, show_progress=False)
    words.train_from_iterator(["merge the duplicates into seven"], trainer)
    words.save(str(folder / "tokenizer.json"))
    (folder / "chat_template.jinja").write_text(template)
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": MARKS[2], "pad_token": MARKS[0]}))


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizers")
    tokenizer_in(folder / "plain", PLAIN)
    return folder


def tokens(root, one=None, name="plain", **options):
    recipe = Recipe.read({"format": "tokens", "tokenizer": name, **options})
    walking = Walk(FORMATS["tokens"], Ground(recipe, tokenizer=tokenizing.load(root, name)))
    return [row.value for row in walking.rows([one or record()])], walking.counts


def learned(root, row, name="plain"):
    kept = [token for token, label in zip(row["input_ids"], row["labels"], strict=True) if label != -100]
    assert all(label in (-100, token) for token, label in zip(row["input_ids"], row["labels"], strict=True))
    return tokenizing.load(root, name).tokens.decode(kept, skip_special_tokens=False)


def test_labels_stand_on_what_the_agent_wrote(root):
    ((row,), _) = tokens(root)
    assert learned(root, row) == (
        'I look first.{"name": "get_ticket", "arguments": {"id": 7}}{"name": "get_ticket", "arguments": {"id": "8"}}'
        '<|im_end|>{"name": "ask_expert", "arguments": {"question": "Into which?"}}<|im_end|>'
        '{"name": "merge", "arguments": {"into": 7}}<|im_end|>Merged into 7.<|im_end|>'
    )
    whole = tokenizing.load(root, "plain").tokens.decode(row["input_ids"], skip_special_tokens=False)
    assert "Finish if you are through." in whole and "Into 7." in whole and "\ufdd0" not in whole
    assert set(row) == set(FORMATS["tokens"].features)


def test_masked_asks_and_what_could_not_be_read_carry_no_loss(root):
    ((row,), _) = tokens(root, advice="keep_masked")
    assert "ask_expert" not in learned(root, row) and "I look first." in learned(root, row)
    steps = [
        {"seq": 1, "kind": "message", "role": "assistant", "content": "<tool_call>{", "turn": 1},
        {"seq": 2, "kind": "nudge", "content": "The call cannot be read.", "turn": 1},
        {"seq": 3, "kind": "message", "role": "assistant", "content": "Done.", "turn": 2},
    ]
    ((row,), _) = tokens(root, record(steps=steps))
    assert learned(root, row) == "Done.<|im_end|>"


ODD = "\ufdd0\ufdd1\ufdd2\ufdd3\ud800\x00漢🙂"


@settings(max_examples=60)
@given(said=st.text(st.characters(codec=None) | st.sampled_from(ODD), min_size=1, max_size=20).filter(str.strip))
def test_odd_texts_are_learned_whole_and_move_no_mark(root, said):
    steps = [{**step, "content": said} if step["seq"] in (2, 10) else step for step in STEPS]
    ((row,), _) = tokens(root, record(steps=steps), redact="off")
    shown = "".join(
        c if c.isprintable() or c in "\t\n" else c
        for c in walk("sft", record(steps=steps))[0][0]["messages"][-1]["content"]
    )
    assert learned(root, row).endswith("}}<|im_end|>" + re.sub("[\ufdd0-\ufdd3]", "?", shown) + "<|im_end|>")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda one: (one / "chat_template.jinja").write_text("{{ messages }}"), "generation"),
        (lambda one: (one / "chat_template.jinja").unlink(), "no chat template"),
        (lambda one: (one / "chat_template.jinja").write_text("{% generation %}{% if %}"), "cannot be read"),
        (lambda one: (one / "tokenizer.json").write_text("{}"), "cannot be read"),
        (lambda one: (one / "tokenizer.json").unlink(), "No tokenizer"),
    ],
)
def test_folder_that_lacks_something_is_refused_with_the_reason(root, tmp_path, change, words):
    shutil.copytree(root / "plain", tmp_path / "t" / "plain")
    change(tmp_path / "t" / "plain")
    with pytest.raises(BadRecipe, match=words):
        tokenizing.load(tmp_path / "t", "plain")


@pytest.mark.parametrize(
    "template", ["{{ ''.__class__.__mro__ }}", "{{ messages.append(1) }}", "{{ raise_exception('no') }}"]
)
def test_template_is_kept_in_its_sandbox_and_may_refuse(root, tmp_path, template):
    shutil.copytree(root / "plain", tmp_path / "t" / "plain")
    (tmp_path / "t" / "plain" / "chat_template.jinja").write_text(PLAIN + template)
    with pytest.raises(BadRecipe, match="cannot be rendered"):
        tokens(tmp_path / "t")


def test_digest_changes_with_every_file(root, tmp_path):
    before = tokenizing.load(root, "plain").digest
    assert tokenizing.load(root, "plain").digest == before
    for name in tokenizing.FILES:
        folder = tmp_path / name
        shutil.copytree(root / "plain", folder / "plain")
        file = folder / "plain" / name
        file.write_text(file.read_text() + "\n")
        assert tokenizing.load(folder, "plain").digest != before, name


@pytest.mark.parametrize("name", ["../plain", "a/b", "..", ".hidden"])
def test_name_is_a_folder_and_no_path(name):
    with pytest.raises(BadRecipe):
        Recipe.read({"format": "tokens", "tokenizer": name})


def test_no_other_format_takes_a_tokenizer():
    with pytest.raises(BadRecipe, match="only format tokens accepts one"):
        Recipe.read({"format": "sft", "tokenizer": "plain"})


@pytest.mark.parametrize("name", ["qwen3", "qwen2_5", "deepseekv3", "glm4moe"])
def test_rendering_and_spans_are_those_of_transformers(root, tmp_path, name):
    from transformers.utils.chat_template_utils import render_jinja_template

    package = find_spec("trl").submodule_search_locations[0]
    template = (Path(package) / "chat_templates" / f"{name}_training.jinja").read_text()
    shutil.copytree(root / "plain", tmp_path / "plain")
    (tmp_path / "plain" / "chat_template.jinja").write_text(template)
    ((row,), _) = walk("sft")
    (text,), (spans,) = render_jinja_template(
        conversations=[row["messages"]], tools=row["tools"], chat_template=template, return_assistant_tokens_mask=True
    )
    ours = tokenizing.load(tmp_path, "plain")._render(row["messages"], row["tools"])[:2]
    assert ours == (text, [tuple(span) for span in spans])
