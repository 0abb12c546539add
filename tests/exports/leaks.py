"""What exports look for, as data: `docs/exports.md` has it as a table, and a test compares both. Pure."""

from __future__ import annotations

from typing import NamedTuple


class Leak(NamedTuple):
    """A kind of leak: where it is looked for, how, what is not found, and the test that plants its canary."""

    what: str
    fields: str
    formats: str
    how: str
    missed: str
    canary: str


_TEXTS = "every text of a loop or a person: steps, task, tools, policy, names of runs, arms and checkpoints, outcomes"
LEAKS = (
    Leak(
        "secrets", f"{_TEXTS}, corrections, labels, names of files, filters and own patterns in the manifest",
        "all, pages and answers about rows",
        "`redact`: RE2 for shapes of tokens; values that are given to a name, with a check",
        "secrets without a known shape or name, passwords that are one plain word in prose, parts of a split secret, "
        "words in pictures",
        "test_canaries.py::test_no_byte_has_a_secret_or_a_name_of_any_field",
    ),
    Leak(
        "personal data", "as secrets", "all, with `redact: personal`", "RE2; check digits of IBANs",
        "names and addresses in texts, numbers of nine digits, IBANs with a wrong check digit, faces and words in "
        "pictures",
        "test_canaries.py::test_no_byte_has_a_mail_address_of_any_field",
    ),
    Leak(
        "names of experts", "`author` of advice and briefings, `by` of shared approvals", "all, answers about rows",
        "opaque IDs unless `authors`", "names that someone wrote into a text",
        "test_canaries.py::test_no_byte_has_a_secret_or_a_name_of_any_field",
    ),
    Leak(
        "the verifier: code, notes, reasoning, criteria",
        "messages, reasoning, names and IDs of calls, arguments, results, tools, "
        "policy, corrections, labels, names beside",
        "training leaves out; reports replace",
        "eight words in a row, or pieces of six that are 18 words together, in any case and with any signs between",
        "paraphrases, pieces of five words, encoded text, words in pictures, a note of which task and tools have each "
        "telling word, or "
        "results have it too, in sentences of the agent",
        "test_canaries.py::test_text_not_to_learn_in_any_field_is_left_out_or_marked",
    ),
    Leak(
        "advice that is cut", "texts, final answer, names and arguments of calls that carry loss",
        "training formats with `advice: distil`", "telling words in common endings; numbers and codes whole",
        "paraphrases, advice whose words were all known before, common words",
        "test_distilled_words.py::test_distil_leaves_out_words_that_only_advice_told",
    ),
    Leak(
        "what an agent says about advice that is cut", "texts of the agent", "all, with `advice: distil`",
        "the text of a turn that asks, or is the first one after, if it has calls; else sentences that name advice, "
        "thank, or begin with *that* or *so*",
        "later sentences that only point, other words than English ones in turns without calls",
        "test_reactions.py::test_no_format_has_the_reaction_to_cut_advice",
    ),
    Leak(
        "advice of people with verifier access", "asks and briefings", "training formats", "the recorded privilege",
        "an expert who was told the verifier elsewhere",
        "test_leakage.py::test_an_episode_is_left_out_for_a_stated_reason",
    ),
    Leak(
        "held-out tasks", "key, split and text of an episode's task", "training formats",
        "key; name of the split; five-word rows shared with a held-out text of a loaded pack, at least 80 %",
        "one whose text is in no loaded pack",
        "test_leakage.py::test_a_task_nearly_that_of_a_held_out_one_is_left_out",
    ),
    Leak(
        "held-out tasks in texts",
        "messages, reasoning, names and IDs of calls, arguments, results, advice, "
        "tools, policy, corrections, labels, names beside; "
        "notes of reports",
        "training leaves out; reports mark",
        "eight words in a row that are half of the task, or 16; tasks of 4 to 7 words as a whole line, sentence or "
        "quoted part; in other words: 75 % of at least six telling words, in one stretch of 1.5 times its length",
        "less than half, tasks of three words, other words for more than a quarter of the telling ones, other words "
        "for a task of which the episode's own says half, other words in scripts without spaces, other languages, "
        "encoded text, words in pictures, a text in no loaded pack",
        "test_canaries.py::test_text_not_to_learn_in_any_field_is_left_out_or_marked",
    ),
    Leak(
        "rewards that an agent could read", "names of tools and of calls", "training formats",
        "names of the control channel, and names that say reward, verify, or score with task or episode",
        "other names, calls written into a text, rewards inside an observation",
        "test_leakage.py::test_tool_that_tells_the_reward_is_known_by_its_name",
    ),
    Leak(
        "tasks that pass on an unmodified database", "outcomes of every source",
        "training formats of complete episodes",
        "check of the verifier, probes, the pack's word", "tasks without a check or a probe",
        "test_untouched.py::test_outcome_without_a_check_has_that_of_its_task",
    ),
    Leak(
        "episodes that reviewers rejected", "verdicts of people and of their tokens", "training formats",
        "consensus of blind reviews", "verdicts by programs and models",
        "test_exported.py::test_review_token_of_a_person_rejects_like_a_person",
    ),
)  # fmt: skip


def table() -> list[str]:
    """Return the lines of the table in the documentation."""
    head = [
        "| looked for | in which fields | of which formats | how | not found | canary |",
        "|---|---|---|---|---|---|",
    ]
    return [*head, *(f"| {' | '.join(one[:-1])} | `{one.canary}` |" for one in LEAKS)]
