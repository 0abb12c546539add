"""Reads: progress, gold accuracy and agreement of a queue, from stored verdicts and labels.

Models, programs and the verifier's outcome are judges like people, so that human against model and human against
verifier use the same figures. Called by pages and the API.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count, Q, QuerySet

from episodes.models import Episode, Privilege
from episodes.stored.splits import task_key
from episodes.visible import visibility
from people.access import Actor, scoped
from people.slots import SlotState, is_free
from people.text.in_words import ago
from reviews.models import (
    Annotation,
    LabelSchema,
    Preference,
    Preferred,
    Review,
    ReviewDecline,
    ReviewQueue,
    ReviewSlot,
    SchemaKind,
    Verdict,
    VerdictDecision,
)
from reviews.statistics import reports, worth
from reviews.statistics.agreement import (
    Agreement,
    Item,
    Share,
    agreement,
    share,
    share_of_tasks,
)
from reviews.visible.annotated import current
from reviews.visible.pairs import answers_of, questions_of
from reviews.visible.places import Place, place_of

VERIFIER = "verifier"
DECLINES = 20


@dataclass(frozen=True)
class Progress:
    """The progress of a queue: slots and verdicts of its reviews; gold items count only as claimed ones."""

    done: int
    total: int
    claimed: int
    people: list[tuple[str, int]]
    mine: int


def progress(actor: Actor, queue: ReviewQueue) -> Progress:
    return progress_of(actor, [queue])[queue.pk]


def progress_of(actor: Actor, queues: Collection[ReviewQueue]) -> dict[str, Progress]:
    """Return the progress of each queue by its ID, in two queries, or three if some are of pairs and some are not."""
    # void ones were closed with their queue: no one can give them
    slots = ReviewSlot.objects.filter(queue__in=queues).exclude(state=SlotState.VOID)
    # without gold, as in the total
    rows = Verdict.objects.as_given().filter(review__gold="")
    states: dict[str, Counter[tuple[bool, str]]] = {one.pk: Counter() for one in queues}
    verdicts: dict[str, Counter[tuple[str, str]]] = {one.pk: Counter() for one in queues}
    for queue, is_gold, state, n in slots.values_list("queue", "is_gold", "state").annotate(n=Count("pk")):
        states[queue][is_gold, state] = n
    for answers, is_pairwise in ((rows, False), (Preference.objects.counted(), True)):
        if kind := [queue for queue in queues if queue.is_pairwise == is_pairwise]:
            counted = answers.filter(review__queue__in=kind).values_list("review__queue", "author", "author_key")
            for pk, author, key, n in counted.annotate(n=Count("pk")):
                verdicts[pk][author, key] = n
    return {pk: _progress(actor, states[pk], verdicts[pk]) for pk in states}


def _progress(actor: Actor, states: Counter[tuple[bool, str]], verdicts: Counter[tuple[str, str]]) -> Progress:
    return Progress(
        done=states[False, SlotState.SUBMITTED],
        total=sum(n for (is_gold, _), n in states.items() if not is_gold),
        # the holder of a gold item must not notice that it is gold
        claimed=states[False, SlotState.CLAIMED] + states[True, SlotState.CLAIMED],
        people=[(name, n) for (name, _), n in verdicts.most_common(20)],
        mine=sum(n for (_, key), n in verdicts.items() if actor.owns(key)),
    )


def known_to(actor: Actor, queue: ReviewQueue) -> set[str]:
    """Return reviews that an actor has given, holds or has declined: they get none of them again."""
    declined = ReviewDecline.objects.filter(review__queue=queue, author_key=actor.key)
    held = ReviewSlot.objects.filter(queue=queue, holder=actor.key)
    return {*declined.values_list("review_id", flat=True), *held.values_list("review_id", flat=True)}


@dataclass(frozen=True)
class Waiting:
    """A queue with reviews for one person: how many they hold, and how many more they can claim."""

    queue: ReviewQueue
    held: int
    free: int


def waiting_for(actor: Actor, now: datetime) -> list[Waiting]:
    """Return the open queues that have reviews for this person, those that they have begun first."""
    slots = scoped(ReviewSlot.objects.filter(queue__closed_at=None), actor.project, "queue__project")
    held = slots.filter(holder=actor.key, state=SlotState.CLAIMED)
    mine = Q(holder=actor.key) | Q(review__in=ReviewDecline.objects.filter(author_key=actor.key).values("review"))
    seen = slots.filter(mine).values("review")
    free = slots.filter(is_free(now), is_gold=False).exclude(review__in=seen)
    count = {
        name: dict(rows.values_list("queue").annotate(n=Count("review", distinct=True)))
        for name, rows in (("held", held), ("free", free))
    }
    queues = ReviewQueue.objects.filter(pk__in=[*count["held"], *count["free"]]).order_by("-created_at")
    rows = [Waiting(one, count["held"].get(one.pk, 0), count["free"].get(one.pk, 0)) for one in queues]
    return sorted(rows, key=lambda waiting: not waiting.held)


def why_empty(actor: Actor, queue: ReviewQueue, now: datetime) -> list[str]:
    """Return why no review of this queue is open to an actor, with counts; empty if one is."""
    slots = ReviewSlot.objects.filter(queue=queue, is_gold=False)
    seen = known_to(actor, queue)
    # an expired lease is free, so it is no reason for an empty queue
    if slots.filter(is_free(now)).exclude(review__in=seen).exists() or slots.filter(
        holder=actor.key, state=SlotState.CLAIMED
    ):
        return []
    if not slots.exists():
        return [f"The queue has no {'pairs' if queue.is_pairwise else 'episodes'} yet."]
    held = slots.filter(state=SlotState.CLAIMED, lease_until__gt=now).order_by("lease_until")
    names = sorted({one.holder_name for one in held})
    verdicts = Verdict.objects.as_given().filter(review__queue=queue, review__gold="")
    mine = verdicts.filter(author_key=actor.key).count()
    mine += Preference.objects.counted().filter(review__queue=queue, author_key=actor.key).count()
    declined = queue.reviews.filter(declines__author_key=actor.key).count()
    done = slots.filter(state=SlotState.SUBMITTED).count()
    reasons = [f"{done} of {slots.count()} reviews are given, {mine} by you."]
    if names:
        until = min(one.lease_until for one in held if one.lease_until)
        reasons.append(f"{held.count()} are claimed by {', '.join(names)}; the first claim ends {ago(until, now)}.")
    reasons += [f"You declined {declined}."] if declined else []
    return reasons


@dataclass(frozen=True)
class GoldLine:
    """One judge's answers on gold items."""

    name: str
    kind: str
    right: Share


def gold_lines(queue: ReviewQueue) -> list[GoldLine]:
    """Return, by judge, the share of gold items answered correctly, with its interval."""
    # the first verdict: a change was made with the answer in sight
    rows = Verdict.objects.as_given().filter(review__queue=queue).exclude(review__gold="")
    verdicts = list(rows.values_list("author_key", "author", "author_kind", "decision", "review__gold", "episode_id"))
    tasks = _tasks_of({episode for *_, episode in verdicts})
    counts: dict[tuple[str, str, str], list[tuple[bool, str]]] = {}
    for *judge, decision, gold, episode in verdicts:
        counts.setdefault((judge[0], judge[1], judge[2]), []).append((decision == gold, tasks.get(episode, episode)))
    lines = [GoldLine(name, kind, share_of_tasks(flags)) for (_, name, kind), flags in counts.items()]
    # each line has an answer, so the rate is a number
    return sorted(lines, key=lambda line: (-(line.right.rate or 0), line.name))


def _open_to(actor: Actor, queue: ReviewQueue, *, as_given: bool = False) -> QuerySet[Verdict]:
    """Return verdicts that an actor can read now: not those on episodes that they still have to judge."""
    rows = Verdict.objects.as_given() if as_given else Verdict.objects.counted()
    return visibility.with_open_outcome(actor, rows.filter(review__queue=queue), "episode_id")


def judged(
    actor: Actor, queue: ReviewQueue, *, only_sample: bool = False, as_given: bool = False
) -> dict[str, dict[str, str]]:
    """Return, by review, the decision of each independent judge, the verifier among them; with `as_given` before any
    change. A person who was called because two differ is none: one more judgment of the disputed ones alone would look
    like agreement."""
    rows = _open_to(actor, queue, as_given=as_given).filter(adjudicates=False)
    if only_sample:
        rows = rows.filter(review__in_sample=True)
    table: dict[str, dict[str, str]] = {}
    episodes: dict[str, str] = {}
    for review, episode, key, decision in rows.values_list("review_id", "episode_id", "author_key", "decision"):
        table.setdefault(review, {})[key] = decision
        episodes[review] = episode
    # only outcomes that this actor can see become a judge
    outcomes = visibility.verdict_types(actor, episodes.values())
    for review, judges in table.items():
        # types without a verdict, such as an error of the judge, are no judgment
        outcome = worth.SAYS.get(outcomes.get(episodes[review], ""))
        if outcome is not None:
            judges[VERIFIER] = outcome
    return table


@dataclass(frozen=True)
class ReportLine:
    """One comparison with its figures."""

    title: str
    figures: Agreement
    tied: int = 0
    """Items left out because a side has no majority."""

    @property
    def finding(self) -> str:
        """The number of pairs of judges that agree, as a sentence."""
        # the share is exact, so rounding only removes the error of the division
        same = round((self.figures.percent or 0) * self.figures.pairs)
        pairs = f"{same} of {self.figures.pairs} {'pair' if self.figures.pairs == 1 else 'pairs'}"
        who, _, what = self.title.partition(", ")
        return f"{who} agree on the {what} in {pairs}." if what else f"{who}: judges agree in {pairs}."


def lines(actor: Actor, queue: ReviewQueue, *, only_sample: bool = False) -> list[ReportLine]:
    """Return agreement on verdicts as they were given: among people, people against models, people against the
    verifier; then by label."""
    if queue.is_pairwise:
        return _pair_lines(actor, queue, only_sample)
    table = judged(actor, queue, only_sample=only_sample, as_given=True)
    kinds = _kinds(queue)
    people = [_of(one, kinds, "human") for one in table.values()]
    models = [_of(one, kinds, "model", "code") for one in table.values()]
    verifier = [{VERIFIER: one[VERIFIER]} if VERIFIER in one else {} for one in table.values()]
    of_review = _tasks(queue, table)
    overall = [
        ReportLine("People, verdict", agreement(people, of_review)),
        _beside("People and models, verdict", people, models, of_review),
        _beside("People and verifier, verdict", people, verifier, of_review),
        _beside("Models and verifier, verdict", models, verifier, of_review),
    ]
    return [*(line for line in overall if line.figures.items or line.tied), *_label_lines(actor, queue, only_sample)]


def _tasks(queue: ReviewQueue, reviews: Iterable[str]) -> list[str]:
    """Return the task of each of these reviews of a queue."""
    episode_of = dict(queue.reviews.values_list("pk", "episode_id"))
    task_of = _tasks_of(episode_of.values())
    return [task_of[episode_of[pk]] for pk in reviews]


def _tasks_of(episodes: Collection[str]) -> dict[str, str]:
    """Return the task of each episode; one without a text or a place in a scenario is a task of its own."""
    rows = Episode.every.filter(pk__in=episodes).values_list("pk", "scenario", "task_idx", "task")
    return {
        pk: task_key(scenario, place, task) if task or (scenario and place is not None) else pk
        for pk, scenario, place, task in rows
    }


def preferred(actor: Actor, queue: ReviewQueue, *, only_sample: bool = False) -> QuerySet[Preference]:
    """Return the answers on pairs that an actor can read now: not those on episodes that are withheld from them.
    An undo in a queue that is not blind follows a look at the answers of others: the first ones count."""
    answers = Preference.objects.counted() if queue.is_blind else Preference.objects.as_given()
    rows = answers.filter(review__queue=queue)
    for name in ("review__episode_id", "review__other_id"):
        rows = visibility.with_open_outcome(actor, rows, name)
    return rows.filter(review__in_sample=True) if only_sample else rows


def _pair_lines(actor: Actor, queue: ReviewQueue, only_sample: bool) -> list[ReportLine]:
    """Return agreement on pairs by question: among people, and people against models."""
    people: dict[str, dict[str, dict[str, str]]] = {}
    models: dict[str, dict[str, dict[str, str]]] = {}
    for answer in preferred(actor, queue, only_sample=only_sample):
        side = people if answer.author_kind == "human" else models
        for question, choice in answers_of(answer).items():
            side.setdefault(question, {}).setdefault(answer.review_id, {})[answer.author_key] = choice
    pair_lines = []
    for question in questions_of(queue.rubric):
        ours, theirs = people.get(question, {}), models.get(question, {})
        of_review, others = _tasks(queue, ours), [theirs.get(pk, {}) for pk in ours]
        pair_lines.append(ReportLine(f"People, {question}", agreement(list(ours.values()), of_review)))
        pair_lines.append(_beside(f"People and models, {question}", list(ours.values()), others, of_review))
    return [line for line in pair_lines if line.figures.items or line.tied]


def _kinds(queue: ReviewQueue) -> dict[str, str]:
    rows = Verdict.objects.as_given().filter(review__queue=queue)
    return dict(rows.values_list("author_key", "author_kind"))


def _of(judges: Item, kinds: dict[str, str], *author_kinds: str) -> dict[str, str]:
    return {key: said for key, said in judges.items() if kinds.get(key) in author_kinds}


def _beside(title: str, some: Sequence[Item], others: Sequence[Item], tasks: Sequence[str]) -> ReportLine:
    """Compare two sides, each as one judge by its majority, so that no pair within a side counts. Items that one side
    did not judge are left out, and so are those on which one is tied, which are counted."""
    both = [(a, b, task) for a, b, task in zip(some, others, tasks, strict=True) if a and b]
    leads = [({"a": _majority(a), "b": _majority(b)}, task) for a, b, task in both]
    clear = [(each, task) for each, task in leads if all(each.values())]
    figures = agreement([each for each, _ in clear], [task for _, task in clear])
    return ReportLine(title, figures, len(leads) - len(clear))


def _majority(judges: Item) -> str:
    """Return the most frequent value; empty if none leads."""
    # a tie of the first two is no majority
    ranked = Counter(judges.values()).most_common(2)
    if not ranked or (len(ranked) > 1 and ranked[0][1] == ranked[1][1]):
        return ""
    return ranked[0][0]


def _label_lines(actor: Actor, queue: ReviewQueue, only_sample: bool) -> list[ReportLine]:
    """Return, by label schema of the queue with one value each, agreement on steps and episodes. A label that only
    single judges set has a line as well, which says so."""
    label_lines = []
    shown = _open_to(actor, queue)
    shown = shown.filter(review__in_sample=True) if only_sample else shown
    # labels on episodes whose verdict the actor can read, not on others
    rows = Annotation.objects.filter(episode__in=shown.values("episode"))
    # a third reviewer judges disputed ones only
    called = set(shown.filter(adjudicates=True).values_list("episode_id", "author_key"))
    for schema in LabelSchema.objects.filter(pk__in=queue.schemas, kind__in=SchemaKind.counted()).order_by("name"):
        items: dict[tuple[str, Place], dict[str, str]] = {}
        for annotation in current(rows.filter(schema=schema)):
            if (annotation.episode_id, annotation.author_key) in called:
                continue
            place = annotation.episode_id, place_of(annotation)
            # a choice of several values counts as one value
            items.setdefault(place, {})[annotation.author_key] = str(annotation.text)
        task_of = _tasks_of({episode for episode, _ in items})
        figures = agreement(list(items.values()), [task_of[episode] for episode, _ in items])
        label_lines.append(ReportLine(f"Label {schema.title}", figures))
    return [line for line in label_lines if line.figures.items or line.figures.alone]


def disagreeing(actor: Actor, queue: ReviewQueue, *, only_sample: bool = False) -> list[Review]:
    """Return reviews whose judges, the verifier among them, disagree."""
    if queue.is_pairwise:
        choices: dict[str, set[str]] = {}
        for review, choice in preferred(actor, queue, only_sample=only_sample).values_list("review_id", "choice"):
            choices.setdefault(review, set()).add(choice)
        ids = [review for review, several in choices.items() if len(several) > 1]
        return list(queue.reviews.filter(pk__in=ids).select_related("episode").order_by("-worth", "pk"))
    # verdicts after changes: judges who agree by now are not listed
    table = judged(actor, queue, only_sample=only_sample)
    ids = [review for review, judges in table.items() if len(set(judges.values())) > 1]
    return list(queue.reviews.filter(pk__in=ids).select_related("episode").order_by("-worth", "pk"))


def declined_with_reason(actor: Actor, queue: ReviewQueue) -> list[ReviewDecline]:
    """Return the newest declines with a reason, but for episodes that the actor still has to judge."""
    rows = ReviewDecline.objects.filter(review__queue=queue).exclude(reason="").select_related("review__episode")
    return list(visibility.with_open_outcome(actor, rows, "review__episode_id").order_by("-at")[:DECLINES])


def accepted_in_sample(actor: Actor, queue: ReviewQueue) -> Share:
    """Return the unbiased rate: the share of accepted episodes among those drawn by the seed, each by the consensus of
    its verdicts that this actor can read. Those without one are left out."""
    rows = _open_to(actor, queue).filter(review__in_sample=True).order_by("created_at", "pk")
    by_review: dict[str, list[Verdict]] = {}
    for verdict in rows:
        by_review.setdefault(verdict.review_id, []).append(verdict)
    decisions = [consensus(verdicts) for verdicts in by_review.values()]
    # a tie is no decision, in neither part nor total
    return share(decisions.count(VerdictDecision.ACCEPT), len(decisions) - decisions.count(""))


def consensus(verdicts: list[Verdict]) -> str:
    """Return the result of one review's verdicts: a third reviewer's decision, else the majority; "" if they are tied.

    A derived view; no verdict is changed by it.

    """
    settled = [one.decision for one in verdicts if one.adjudicates and not one.is_late]
    if settled:
        # the newest, if several adjudicate
        return settled[-1]
    decisions = [one.decision for one in verdicts if not one.is_late]
    # twice the accepted minus all: positive with more accepted than rejected
    ahead = 2 * decisions.count(VerdictDecision.ACCEPT) - len(decisions)
    return "" if not ahead else str(VerdictDecision.ACCEPT if ahead > 0 else VerdictDecision.REJECT)


def blind_verdicts(episodes: QuerySet[Episode]) -> dict[str, str]:
    """Return the consensus of people who read neither outcome nor verifier, by episode. Episodes whose reviews have
    different results have none; gold items test the reviewer and are not counted, and neither is a verdict that its
    author changed later."""
    people = Verdict.objects.counted().filter(
        episode__in=episodes.order_by().values("pk"),
        author_kind="human",
        privilege=Privilege.BLIND,
        is_blind=True,
        review__gold="",
    )
    reviews: dict[tuple[str, str], list[Verdict]] = {}
    # by age, so that the last of `consensus` is the newest
    for verdict in people.order_by("created_at", "pk"):
        reviews.setdefault((verdict.episode_id, verdict.review_id), []).append(verdict)
    decisions: dict[str, set[str]] = {}
    for (episode, _), verdicts in reviews.items():
        # a tied review has no result, and so cannot contradict another
        if decision := reports.consensus(verdicts):
            decisions.setdefault(episode, set()).add(decision)
    return {episode: said.pop() for episode, said in decisions.items() if len(said) == 1}


def blind_preferences(episodes: QuerySet[Episode]) -> dict[str, list[tuple[Any, ...]]]:
    """Return how people who read neither outcome nor verifier compared pairs of these episodes: by the first of a pair
    the ID of the other, the votes for each, and those for neither of them. A person has one vote on a pair."""
    among = episodes.order_by().values("pk")
    people = Preference.objects.counted().filter(
        review__episode__in=among,
        review__other__in=among,
        author_kind="human",
        privilege=Privilege.BLIND,
        is_blind=True,
    )
    votes: dict[tuple[str, str], dict[str, str]] = {}
    # by age: of answers in two queues the newest counts
    for answer in people.select_related("review").order_by("created_at", "pk"):
        pair = answer.review.episode_id, str(answer.review.other_id)
        votes.setdefault(pair, {})[answer.author_key] = answer.choice
    by_episode: dict[str, list[tuple[Any, ...]]] = {}
    for (first, second), choices in sorted(votes.items()):
        counts = Counter(choices.values())
        sides = counts[Preferred.FIRST], counts[Preferred.SECOND]
        by_episode.setdefault(first, []).append((second, *sides, len(choices) - sum(sides)))
    return by_episode
