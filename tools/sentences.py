"""The sentences that can be false: each with the function that decides it, its unit, and the planted worlds that test
it.

`at` lists where its intervals are made and where it is printed: a module or a template, then names in it. A place that
is not listed is refused (`tests/test_sentences.py`, which looks for them by `tests/findings_printed.py`). `make
planted` tries the worlds. `tools/printed.py` prints the table into docs/measured/planted.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

RUNS = tuple(
    f"Run: {attack}"
    for attack in (
        *("none", "optional stopping", "cancel", "retry", "exclusion"),
        *("added seeds", "shared answers", "choice of arm", "everything"),
    )
)


@dataclass(frozen=True)
class Sentence:
    """A sentence, word or number with an interval that can be false. `worlds` are subjects of planted cases."""

    of: str
    says: str
    rule: str
    unit: str
    worlds: tuple[str, ...]
    at: tuple[str, ...]


SENTENCES = (
    Sentence(
        "runs",
        "Better on these {n} tasks: {d} points [{low}, {high}], p {p}",
        "runs.statistics.deciding.is_shown",
        "task; tasks that share an answer are one",
        (*RUNS, "Erratum: interval of a run"),
        (
            "runs.statistics.sentences of_tasks span_text",
            "runs.statistics.deciding SHOWN word",
            "runs.statistics.compare _on_tasks",
            "runs.statistics.paired cluster_interval newcombe tango _reach",
            "runs.show.charts forest _forest _interval _total",
            "runs.show.report markdown _of_contrast",
            "runs.plan.claims RULES",
            "runs/run.html head.sentence one.sentence one.tasks_scope.sentence interval 95%",
        ),
    ),
    Sentence(
        "runs",
        "No difference shown; differences outside this interval are ruled out at 95%",
        "runs.statistics.sentences.of_tasks",
        "task",
        (*RUNS, "Erratum: interval of a run"),
        ("runs.statistics.sentences of_tasks",),
    ),
    Sentence(
        "runs",
        "For scenarios like these {n}: better ({d} points [{low}, {high}])",
        "runs.statistics.compare._on_scenarios",
        "scenario",
        RUNS,
        (
            "runs.statistics.sentences of_scenarios",
            "runs.statistics.compare _on_scenarios",
            "runs/run.html one.scenarios_scope.sentence",
        ),
    ),
    Sentence(
        "runs",
        "Shown while running, at task {n}: better. Interval so far [{low}, {high}]",
        "runs.statistics.anytime.first_crossing",
        "task, in the planned order",
        RUNS,
        (
            "runs.statistics.sentences shown_while_running not_shown",
            "runs.statistics.anytime interval _interval",
            "runs.launch.withdrawing withdraw_if_worse",
            "runs/run.html one.running.sentence",
        ),
    ),
    Sentence(
        "runs",
        "Not comparable: delta between {low} and {high} points whatever lost episodes were",
        "runs.statistics.compare.contrasts",
        "episode",
        ("Run: cancel", "Run: retry", "Run: exclusion"),
        ("runs.statistics.sentences _finding", "runs.show.report _of_contrast _of_help"),
    ),
    Sentence(
        "runs",
        "pass@{k}: {share} [{low}, {high}]",
        "runs.show.tables.bounded",
        "task",
        ("Run: pass at k",),
        ("runs.show.tables Mean.words _mean bounded",),
    ),
    Sentence(
        "runs",
        "Complete, 95%: {low} to {high}, against asks or minutes",
        "runs.show.curve.interval_of",
        "scenario, those that share an answer are one; no interval below three of equal size",
        ("Curve: complete",),
        ("runs.show.curve interval_of _chart",),
    ),
    Sentence(
        "runs",
        "Random asking at {n} asks reaches {low} to {high}",
        "runs.statistics.random_asking.random_asking",
        "scenario; those that share an answer are one",
        ("Curve: random offers",),
        ("runs.statistics.random_asking _at",),
    ),
    Sentence(
        "runs",
        "Corrected for the verifier's own errors: {d} points [{low}, {high}]",
        "runs.statistics.corrected.difference",
        "task",
        ("Corrected difference", "Corrected difference: on a wrong side of 0"),
        ("runs.statistics.corrected _estimated _reach difference", "runs/run.html one.corrected.sentence"),
    ),
    Sentence(
        "runs",
        "Complete, corrected for the verifier's own errors: {share} [{low}, {high}]",
        "runs.statistics.corrected.rate",
        "task",
        ("Corrected rate",),
        ("runs.statistics.corrected rate", "runs/run.html sentence"),
    ),
    Sentence(
        "runs",
        "{arm} against itself: No difference shown",
        "runs.statistics.self_control.against_itself",
        "task; its seeds in two random halves",
        ("Arm against itself: better or worse",),
        (
            "runs.management.commands.controls Command.handle Command.help",
            "runs/run.html one.against_itself",
            "runs.show.report _of_contrast",
        ),
    ),
    Sentence(
        "help by draw",
        "Offering help changed completion on these {n} episodes: {d} points [{low}, {high}]",
        "runs.statistics.offers.effects",
        "draw of an episode",
        ("Help by draw", "Erratum: interval of help by draw", "Erratum: help by draw shown"),
        (
            "runs.statistics.offers _mean _running _sentence _wide_enough widened",
            "runs.show.report _of_help",
            "runs/charts/_effect.html one.sentence",
        ),
    ),
    Sentence(
        "runs",
        "{x} human minutes per extra success [{low}, {high}]",
        "runs.statistics.prices.price",
        "task, those that share an answer are one; draw of an episode",
        ("Price: interval", "Erratum: price of a run", "Erratum: price of help by draw"),
        (
            "runs.statistics.prices fieller price _errors",
            "runs/run.html one.price.sentence",
            "runs/charts/_effect.html one.price.sentence",
        ),
    ),
    Sentence(
        "forks",
        "{n} of {m} complete against {k}: {d} points [{low}, {high}], p = {p}: better",
        "runs.statistics.forked.finding",
        "branch; the forks of a tree share the error",
        ("Fork: better or worse", "Fork: interval"),
        (
            "runs.statistics.forked finding widened least_shown _interval ForkFinding.measured",
            "runs.statistics.forked with_alike without_outcome NOT_SHOWN",
            "runs/fork.html finding finding.sentence",
            "runs/_proof.html proof.finding proof.finding.verdict proof.finding.measured proven",
            "runs/_proof.html proof.finding.treated.counts proof.finding.control.counts",
        ),
    ),
    Sentence(
        "forks",
        "Share complete of a lane, 95%: {low} to {high}",
        "runs.show.lanes.TreeLane.interval",
        "branch; those that went on alike are one",
        ("Fork: share of a lane",),
        (
            "runs.show.lanes TreeLane.why_no_interval _interval",
            "episodes.templatetags.marks share_line",
            "runs/tree.html 95% lane.interval lane.why_no_interval",
        ),
    ),
    Sentence(
        "campaigns",
        "Shown to help at {n}% of an episode on these {m} episodes: {d} points [{low}, {high}]",
        "runs.statistics.campaigned.finding",
        "episode",
        ("Campaign: shown", "Campaign: interval", "Erratum: campaign shown", "Erratum: interval of a campaign"),
        (
            "runs.statistics.campaigned WORDS _known_of _numbers _sentence",
            "runs/campaign.html found.sentence sentence",
            "runs/campaigns.html found.sentence",
        ),
    ),
    Sentence(
        "campaigns",
        "At {n}%: {d} points [{low}, {high}], this one alone",
        "runs.statistics.campaigned.finding",
        "episode",
        ("Campaign: interval of a place",),
        ("runs.statistics.campaigned CampaignCell.words CampaignCell._word", "runs.show.charts _demand"),
    ),
    Sentence(
        "errata",
        "Withheld after an erratum; each interval holds that of the first outcomes, too",
        "runs.statistics.rereading.contrast",
        "that of the statement",
        (
            *("Erratum: interval of a run", "Erratum: interval of a fork", "Erratum: interval of help by draw"),
            *("Erratum: interval of a campaign", "Erratum: help by draw shown", "Erratum: campaign shown"),
            *("Erratum: price of a run", "Erratum: price of help by draw", "Erratum: interval of worth"),
            *("Erratum: share of wrong pairs",),
        ),
        (
            "runs.statistics.sentences WIDENED of_both_readings",
            "runs.statistics.rereading _both _price",
            "exports/_errata.html one.sentence",
        ),
    ),
    Sentence(
        "campaigns",
        "Withheld: {n} of {m} episodes were erased since the launch.",
        "runs.show.campaigns.seen",
        "episode",
        ("Campaign: withheld",),
        (),
    ),
    Sentence(
        "episodes",
        "{n} verified, {m} complete",
        "episodes.show.wall.tallies",
        "episode",
        ("List: verified and complete",),
        (),
    ),
    Sentence(
        "runs",
        "{n} minutes of people",
        "runs.plan.spending.human_s",
        "answer; an edited one once",
        ("Minutes: sum",),
        (),
    ),
    Sentence(
        "metrics",
        "Episode completed: {share} [{low}, {high}]",
        "experts.metrics.statistics.desk_line",
        "task",
        ("Metrics: episode completed",),
        ("experts.metrics.pages COLUMNS _share _span", "experts.metrics.statistics Proportion.of_counts"),
    ),
    Sentence(
        "metrics",
        "{share} of asks [{low}, {high}]",
        "experts.metrics.statistics.Proportion.of_asks",
        "episode, by its effective number, or fewer where times are alike",
        ("Metrics: share of asks", "Metrics: declined by an expert"),
        (
            "experts.metrics.pages _share _span",
            "experts.metrics.statistics Proportion.of_counts",
            "experts/desk/metrics.html 95% intervals",
        ),
    ),
    Sentence(
        "metrics",
        "Median wait {s} [{low}, {high}]",
        "experts.metrics.statistics.waits",
        "busy period, or fewer where times are alike; a fallback is never answered, an open ask is censored",
        ("Metrics: median wait", "Metrics: median wait for people", "Metrics: answer time"),
        ("experts.metrics.pages _middle _span", "experts.metrics.times ranks_below _worth"),
    ),
    Sentence(
        "metrics",
        "In time: {share} [{low}, {high}]",
        "experts.metrics.statistics.desk_line",
        "task or busy period, whichever are fewer, or fewer where times are alike",
        ("Metrics: in time",),
        (),
    ),
    Sentence(
        "metrics",
        "Expert model calls: {share} faults [{low}, {high}], duration {s} [{low}, {high}]",
        "experts.metrics.statistics.call_lines",
        "stretch of calls, apart by six hours",
        ("Metrics: faults of model calls", "Metrics: duration of model calls"),
        (),
    ),
    Sentence(
        "metrics",
        "Used per hour: {n} [{low}, {high}]",
        "experts.metrics.statistics.per_hour",
        "episode",
        ("Metrics: used per hour",),
        ("experts.metrics.statistics per_hour", "experts.metrics.pages _span"),
    ),
    Sentence(
        "asking",
        "Ask-F1, {arm} less {control}: {d}, 95% interval {low} to {high}",
        "runs.statistics.asking.differences",
        "task",
        ("Ask-F1: difference", "Ask-F1: a copy of the task"),
        ("runs.statistics.asking AskingDifference.words _difference",),
    ),
    Sentence(
        "asking",
        "Gate: better, {d} points [{low}, {high}]; timing pays",
        "runs.statistics.gating.fit",
        "scenario",
        ("Gate: claims without a need",),
        (
            "runs.statistics.gating _numbers _stored _value",
            "runs.show.gating words_of _span",
            "runs.show.curve timing_of _timed",
        ),
    ),
    Sentence(
        "agreement",
        "Alpha {a} [{low}, {high}]",
        "reviews.statistics.agreement.interval",
        "task; its items are one",
        ("Interval of alpha",),
        (
            "reviews.statistics.agreement interval _left_out _by_disagreement",
            "reviews/agreement.html 95% intervals f.alpha_low f.alpha_high f.why_no_interval",
        ),
    ),
    Sentence(
        "agreement",
        "{n} of {m} accepted, or right (95% interval {low} to {high})",
        "reviews.statistics.agreement.share",
        "episode of those that a sample was drawn from; the task for gold items",
        ("Review: share of episodes", "Review: gold items"),
        (
            "reviews.statistics.agreement share share_of_tasks",
            "reviews/queue.html 95% interval sampled.low sampled.high line.right.low line.right.high",
        ),
    ),
    Sentence(
        "curriculum",
        "{share} of a step's rollouts, 95%: {low} to {high}",
        "curriculum.show.charts.interval",
        "task",
        ("Curriculum: share of a step",),
        ("curriculum.show.charts interval format_errors success _rate _range _ci",),
    ),
    Sentence(
        "curriculum",
        "Mean of a level, 95%: {low} to {high}",
        "curriculum.show.cockpit.level_rows",
        "task",
        ("Curriculum: mean of a level",),
        ("curriculum.show.cockpit level_rows", "curriculum/page.html 95% one.bar.low"),
    ),
    Sentence(
        "curriculum",
        "Solo rate of a task, 95%: {low} to {high}",
        "curriculum.show.cockpit.tasks_of",
        "rollout of the task",
        ("Curriculum: rate of a task",),
        (
            "curriculum.show.cockpit tasks_of",
            "exports.formats.curriculum rows",
            "curriculum/page.html 95% one.low one.high",
        ),
    ),
    Sentence(
        "curriculum",
        "Help changes at step {n}; the next level opens; a run is recommended",
        "curriculum.rules.ratio.history",
        "group of rollouts",
        (
            *("Curriculum: help changes", "Curriculum: level opens", "Curriculum: recommended"),
            *("Curriculum: help follows", "Curriculum: level that is ready"),
        ),
        (),
    ),
    Sentence(
        "exports",
        "A pair is worth {d} [{low}, {high}]",
        "runs.statistics.worth.worth_of",
        "fork, beside all that the project asked",
        ("Pair: interval of worth", "Siblings: interval of worth", "Erratum: interval of worth"),
        ("exports.rules.pairs PreferencePair.worth _of_siblings from_forks", "exports.formats.preference _measured"),
    ),
    Sentence(
        "exports",
        "{share} of the pairs have no effect or the opposite one (95%: {low} to {high})",
        "runs.statistics.worth.share_wrong",
        "fork",
        ("Card: share of wrong pairs", "Erratum: share of wrong pairs"),
        ("exports.assembly.card _forks",),
    ),
)

OTHERWISE = {
    "a check of what others say": (
        "awmclient.check SHOWN _of_line _of_pair _of_scope _verdict",
        "awmclient.checking.numbers Z jackknife tango",
        "awmclient.checking.corrected _reach _wilson",
    ),
    "the quantile and the rate that intervals are made of": ("people.rates Z student_quantile wilson",),
    "bounds of a setting, a draw or a rating": (
        "awmclient.asking.rules OfferedByDraw.parse",
        "awmenv.server.settings _Reader.number _Reader.whole",
        "awmweb.variables number",
        "reviews.record.schemas checked",
        "reviews/_label.html label.options.0.high label.options.0.low",
        "reviews/labels.html option.high option.low",
    ),
    "spans of a trace": (
        "imports.readers.traces _Trace._add_model _Trace._add_note _Trace._add_tool _agent_name _words_of",
    ),
    "a question, or the answer of a person": (
        "reviews.record.deciding _refuse_misfit",
        "reviews.visible.pairs OVERALL",
        "reviews/queue.html better",
    ),
    "a message without a finding": (
        "awmweb.views _role",
        "notices.record.subscriptions set_rules",
        "runs.play.forking corrected",
    ),
    "words of a list": ("exports.rules.wording _COMMON",),
    "exact controls of a registry: the task was tried without its fact": (
        "runs.management.commands.block Command.handle",
        "runs.taskset.blocks _without",
    ),
}
"""Places that look like one and are none, by the reason."""


def places(lines: Iterable[str]) -> Iterator[str]:
    """Yield each place of lines that list a module or a template with names in it."""
    for line in lines:
        where, *names = line.split()
        yield from (f"{where} {name}" for name in names)


def table() -> str:
    """Return the registry as a table of the page of planted truth."""
    rows = ["| of | sentence | rule | unit | planted worlds |", "|---|---|---|---|---|"]
    for row in SENTENCES:
        worlds = "<br>".join(("Run: every attack", *row.worlds[len(RUNS) :]) if row.worlds[:9] == RUNS else row.worlds)
        rows.append(f"| {row.of} | {row.says} | `{row.rule}` | {row.unit} | {worlds} |")
    return "\n".join(rows)
