"""Each sentence of README.md, CHANGELOG.md and docs/ with a measured number or finding is that of the page it names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from awmenv.packs import load_pack
from bench.environment import AIMS
from runs.statistics.forked import least_shown
from runs.statistics.power import smallest
from runs.taskset.ask_controls import sentence_of
from tests.commands import ROOT
from tests.measured import Claim, claims, without_proof

PACKS = ROOT / "packs"
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
COMPUTED: dict[tuple[str, str], Callable[[], str]] = {  # page and first words: what the code itself returns
    ("environment.md", "| aim: "): lambda: str(AIMS),
    ("asking.md", "On the starter pack they have"): lambda: sentence_of(load_pack(PACKS / "starter")),
    ("asking.md", "On `starter_blocked`"): lambda: sentence_of(load_pack(PACKS / "optional/starter_blocked")),
    ("forks.md", "The form says which differences"): lambda: str({n: least_shown(n) for n in (4, 8)}),
    ("forks.md", "With 4 branches it is only 4 of 4"): lambda: str({n: least_shown(n) for n in (4, 8)}),
    ("comparison.md", "24 tasks with one seed show"): lambda: str({n: round(100 * smallest(n)) for n in (24, 100)}),
}
NOT_MEASURED = {  # page and first words: why this is no measurement
    ("experts.md", "| people's answer time |"): "the rule of a median, and what is assumed before there is one",
    ("experts.md", "| median wait for people |"): "what the number is, and of how many asks at most",
    ("training.md", "| `at_once` |"): "an estimate by the sizes of tensors, as the page says",
    ("training.md", "| `lora` |"): "an estimate by the sizes of tensors, as the page says",
    ("training.md", "With adapters expect 15 to 20 GB"): "an estimate by the sizes of tensors, as the page says",
}
TRUE = "[A sweep](measured/durable.jsonl#durable.parked_sweep) over 10,502 parked episodes took 0.8 ms. Its aim is 1 s."
ALONE = "measured/strategies.md#1-solved-without-an-expert"
SHOWN = f'[All]({ALONE} "mean") solve 52% to 54%, and [no difference]({ALONE}) is shown.'


def refused(page: Path) -> list[str]:
    """Return the claims of a page that its sources do not prove, each with what is missing there."""
    faults = []
    for claim in claims(page):
        exception = exception_of(claim)
        if exception not in NOT_MEASURED:
            told = COMPUTED[exception]() if exception else None
            faults += [f"{claim}: {missing}" for missing in [without_proof(claim, told)] if missing]
    return faults


def exception_of(claim: Claim) -> tuple[str, str] | None:
    names = [name for name in (*COMPUTED, *NOT_MEASURED) if claim.page == name[0] and claim.text.startswith(name[1])]
    return names[0] if names else None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_measured_sentence_says_what_its_page_says(page):
    assert refused(page) == []


def test_each_exception_is_of_a_sentence_without_page():
    unproven = {exception_of(claim) for page in PAGES for claim in claims(page) if without_proof(claim)}
    assert unproven == {*COMPUTED, *NOT_MEASURED}


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        (TRUE, ""),
        (TRUE.replace("0.8", "0.9"), "['0.9']"),
        (TRUE.replace("10,502", "10,503"), "['10,503']"),
        (TRUE.replace("parked_sweep", "unparked_sweep"), "['no page']"),
        ("A sweep over 10,502 parked episodes took 0.8 ms.", "['no page']"),
        (TRUE.replace(" Its", "\n\nIts").replace("is 1 s", "is 1 s, p95"), "['no page']"),
        (TRUE.replace("Its aim is", "\n\n| what | aim |\n|---|---|\n| it |").replace("1 s.", "3 s |"), "['3']"),
        (SHOWN, ""),
        (SHOWN.replace("54%", "55%"), "['55']"),
        (SHOWN.replace("#1-solved-without-an-expert", "#1-solved"), "['no page']"),
        (SHOWN.replace("is shown", "is shown: one is better"), "['better']"),
        ("The first install took half as long on two cores.", "['no page']"),
        ("A claim lasts 15 minutes, waits at most 0.8 s, and tries again after 5 s.", ""),
        ('It prints "Better on these 21 tasks: +76 points on average" with its interval.', ""),
        ("```console\n$ make bench\nIt took 3.5 s on two cores.\n```", ""),
        ("By a [decision](decisions/0099-tests-are-selected-by-names.md), the median is 78 files.", "['78']"),
    ],
)
def test_false_sentence_on_a_new_page_is_refused(tmp_path, text, missing):
    page = tmp_path / "new.md"
    page.write_text(f"# New\n\n{text}\n", encoding="utf-8")
    assert {fault.rpartition(": ")[2] for fault in refused(page)} == ({missing} if missing else set())
