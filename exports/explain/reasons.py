"""The label and the sentence for each reason code of the manifest. Pure."""

from __future__ import annotations

REASONS: dict[str, tuple[str, str]] = {
    "branch": ("Branch of another episode", "It shares its beginning with another episode."),
    "steps_erased": ("Steps erased", "A retention rule took the words out of its steps, or their month was detached."),
    "one_per_root": (
        "Another success of its root",
        "The dataset has this episode or another of its branches already, with the same first steps.",
    ),
    "unmeasured": ("Pair without a measured worth", "No fork measured it, and the recipe weighs pairs by worth."),
    "contradicted": (
        "Compared against the verifier",
        "People preferred an episode that its verifier did not find complete to one that it did.",
    ),
    "assisted": ("A person took part", "A person at the wheel acted in it, or changed its limits."),
    "continued": (
        "Continued from a prompt",
        "It goes on from another episode's prompt, which was chosen because of how that one ended.",
    ),
    "cancelled": ("Cancelled", "The episode was cancelled."),
    "infrastructure_failure": (
        "Infrastructure failure",
        "A fault or a broken verifier ended it, which says nothing about the agent.",
    ),
    "held_out": ("Held-out task", "Its task is in a pinned split other than train, or its loop named another split."),
    "near_held_out": ("Similar to a held-out task", "Its task's text is nearly that of a held-out task."),
    "evaluation": ("Evaluation run", "It belongs to an evaluation run, which is never trained on."),
    "control_tool": ("Agent had control tools", "The agent had a control tool and could see its reward."),
    "pictures": ("Has pictures", "The agent saw, wrote or asked with pictures that rows of this recipe cannot have."),
    "pictures_too_large": (
        "Pictures of more than 64 MB in a row",
        "A row of Parquet has its pictures inside. JSON Lines has them in files, without this limit.",
    ),
    "prompts_too_large": (
        "Prompts of more than 64 MB together",
        "Each turn repeats what was before it, in Parquet with its pictures. Turns beyond 64 MB are left out.",
    ),
    "reported_only": (
        "Outcome only reported",
        "Only its loop, its file or its environment reported an outcome. No verifier of awmweb found it.",
    ),
    "not_verified": ("Not verified", "No verifier has judged it."),
    "not_complete": ("Not complete", "The verifier did not find the task complete."),
    "gave_up": ("Agent gave up", "The agent ended it by giving up."),
    "passes_untouched": (
        "Verifier passes an unmodified database",
        "The verifier passes this task on an unmodified database, so its outcome shows no work.",
    ),
    "informed": (
        "Advice from an expert who saw the verifier",
        "An answer or a briefing came from someone who knew the verifier or its outcomes.",
    ),
    "partial": ("Partial scenario", "The scenario's database lacks rows that could not be built."),
    "ruled": (
        "Ruled at fault by the court",
        "The verifier court ruled that its verifier or its task is at fault, so its outcome shows nothing.",
    ),
    "rejected": (
        "Rejected by reviewers",
        "The verifier found it complete, and people who saw neither outcome nor verifier rejected it.",
    ),
    "verifier_text": ("Quotes the verifier", "A message quotes eight words in a row of the task's verifier."),
    "held_out_text": (
        "Reveals a held-out task",
        "A message, a tool or a field reveals a held-out task, quoted or in other words.",
    ),
    "no_conversation": ("No conversation", "It holds no turn of an agent."),
    "asked": ("Asked an expert", "The agent asked an expert, and the recipe drops such episodes."),
    "briefed": ("Had a briefing", "The agent read a briefing, and the recipe drops such episodes."),
    "mentions_expert": ("Mentions the expert", "A prompt or a turn names the expert, which the recipe cuts out."),
    "ungrounded": (
        "Not solvable without the advice",
        "A call, a text or the final answer has a word that only the advice told, and the recipe cuts advice out.",
    ),
    "no_turn_left": ("No turn left to learn from", "No turn is left that a model would learn."),
    "duplicate": ("Duplicate of another row", "Its rows repeat rows that are in the dataset already."),
    "not_trainable": ("Not trainable", "The captured token IDs of a turn cannot be trained on."),
    "no_row": ("No row in this format", "The format makes no row of it."),
    "too_many_of_task": ("Too many episodes of one task", "Its task has more episodes than are compared."),
}
OPT_IN = {"reported_only": "reported", "duplicate": "duplicates", "branch": "branches"}
"""What a recipe must include to switch a reason off, where the names differ."""


def label(reason: str) -> str:
    # `no_row` and `not_trainable` bring their own words, after a colon
    code, _, why = reason.partition(": ")
    named = REASONS[code][0] if code in REASONS else code
    return f"{named}: {why}" if why else named


def sentence(reason: str) -> str:
    code, _, why = reason.partition(": ")
    words = REASONS[code][1] if code in REASONS else f"The rule {code} left it out."
    return f"{words} Reason: {why}." if why else words
