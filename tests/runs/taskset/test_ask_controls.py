"""Questions without thought: what they reach is printed beside a pack's own scripts."""

from __future__ import annotations

import pytest

from awmenv.blockers import read_blockers
from awmenv.packs import load_pack
from runs.taskset.ask_controls import SENTENCE, controls_of, sentence_of
from tests.packs_starter.conftest import ROOT

ROW = {"id": "phone", "missing": "The number.", "holder": "Hanna", "answer": "04711"}
TASK = "Write the new phone of Hanna on her card."


def test_copied_task_and_fixed_sentence_are_measured():
    word = SENTENCE.split()[1].strip(",")
    read = [read_blockers([{**ROW, "terms": [[name], ["phone"]]}], TASK) for name in (word, "elephant")]
    controls = controls_of([[], *read])
    assert (controls.tasks, controls.copied, controls.fixed) == (2, 0.0, 0.5)
    assert controls_of([[]]) is None


@pytest.mark.parametrize(("folder", "own"), [("starter", 0.9), ("optional/starter_blocked", 0.7)])
def test_copying_agent_has_no_f1_on_our_packs(folder, own):
    words = sentence_of(load_pack(ROOT / "packs" / folder))
    assert "0.00 if each task's own text is the question" in words
    assert float(words.split(" by the pack's own")[0].split()[-1]) >= own
