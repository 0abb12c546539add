"""Canaries: what may not leave is planted in every field that a stranger can write, and every byte is searched."""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from dataclasses import replace

import pytest
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

from awmclient import schema
from awmclient.nouns.typed import TYPED_FIELDS, Option, ProposedCall
from awmclient.schema import AnswerBody, AskOpen, EpisodeStart, Finish, Outcome, RunStart, StepBatch, TrainingStepReport
from curriculum.record import taking, training
from episodes.models import Episode, Run
from episodes.record import ending, pictures, pinning, recording
from experts.models import Ask
from experts.record import advising, attaching, closing, opening, queue
from exports.assembly import datasets
from exports.assembly.building import Walk
from exports.formats import FORMATS
from exports.recipe import KINDS, Recipe
from exports.rules import tokenizing
from exports.rules.held_out import HeldOutTasks
from exports.rules.leakage import Ground
from exports.rules.quotations import VerifierWords
from exports.rules.redaction import Redactor, marks_in
from exports.select.curricula import reader_for
from exports.select.selecting import entries_of, matching
from reviews.record import annotating, correcting
from reviews.visible.places import Place
from tests.asking import picture
from tests.browsing import as_person, html
from tests.exports import canaries
from tests.exports.pages.test_export_pages import built, store
from tests.exports.rules.test_token_ids import PLAIN, tokenizer_in
from tests.people_by_name import person, token

__all__ = ["store"]
pytestmark = pytest.mark.attack("exports")


def shaped(shape, text, **more):
    return shape.model_validate({**canaries.planted(shape, text), **more})


def steps_of(text):
    """One step of every kind that a loop can record, each field planted, and a conversation to learn."""

    def step(kind, where="", **more):
        return {**canaries.planted(kind, text, where), **more}

    system_, briefing = step(schema.Message), step(schema.Briefing)
    user = {"kind": "message", "role": "user", "content": text("user")}
    said = step(schema.Message, "assistant", role="assistant", turn=1)
    called = step(schema.ToolCallStep, turn=1, error=None)
    failed = step(schema.ToolCallStep, "failed", turn=1)
    others = [step(schema.Action), step(schema.Nudge), step(schema.Note)]
    return [system_, user, briefing, *others, said, failed, {**called, "turn": 2}]


def lived(actor, expert, key, text, two_people=False, has_pictures=False, **more):
    """A finished, verified and complete episode that asked, with a canary in every field. If it has pictures, only rows
    of its prompt are of it: it wrote and asked with some, too."""
    run, _ = recording.start_run(actor, shaped(RunStart, text, key=key, plan=None))
    place = {"key": key, "run": run.pk, "expert": "plain", "split": "train", "parent": None}
    start = shaped(EpisodeStart, text, **{**place, **more})
    one, _ = recording.start_episode(actor, start)
    shown = uploaded(actor, one, text) if has_pictures else {}
    steps = [{**with_picture(step, shown), "seq": seq} for seq, step in enumerate(steps_of(text), 1)]
    recording.append_steps(actor, one.pk, StepBatch.model_validate({"steps": steps}).steps)
    seq, asking = len(steps) + 1, canaries.planted(AskOpen, text, without=("thread", *TYPED_FIELDS))
    asking = with_picture(asking, shown)
    ask, _ = opening.open_ask(
        actor, AskOpen.model_validate({**asking, "episode": one.pk, "key": key, "seq": seq, "turn": 3, "skills": None})
    )
    given = canaries.planted(AnswerBody, text, without=("decision",))
    lease = queue.claim(expert, ask.pk)
    attaching.attach(token(actor.project, "agent")[0], ask.pk, f"{text('AskFile.name')}.txt", b"asked")
    attaching.attach(expert, ask.pk, f"{text('AnswerFile.name')}.txt", b"answered")
    tool = start.tools[0].name  # an answer suggests calls of known tools alone
    calls = [schema.ToolCall.model_validate({**call, "name": tool}) for call in given["tool_calls"]]
    advising.answer(expert, lease.assignment_id, lease.lease_token, given["text"], "n", calls)
    annotating.annotate(expert, one, Place(seq, ask_id=ask.pk), "question_needed", text("tag"))
    seq = decided(actor, expert, one, seq + 1, text)
    if two_people:
        seq += 1
        shared(actor, expert, one, seq)
    last = {"seq": seq + 1, "kind": "message", "role": "assistant", "content": text("last"), "turn": 4}
    recording.append_steps(actor, one.pk, StepBatch.model_validate({"steps": [last]}).steps)
    ending.finish(actor, one.pk, shaped(Finish, text, fault=None, detail=None))
    ending.record_outcome(actor, one.pk, shaped(Outcome, text, reward_type="complete"))
    one.refresh_from_db()
    correcting.correct(expert, one, seq + 1, correcting.Better("message", text=text("correction")))
    return one


def uploaded(actor, episode, text):
    """The part of a picture that this episode has, uploaded with a canary behind its end."""
    row, _ = pictures.upload(actor, episode.pk, picture(width=2) + text("picture").encode())
    return {"blob": row.sha256, "media_type": row.media_type, "width": row.width, "height": row.height}


def with_picture(fields, part):
    """A body whose pictures are this one, each with the words that were planted beside it; none without a part."""
    plain = {name: value for name, value in fields.items() if name != "pictures"}
    return {**plain, **({"pictures": [{**fields["pictures"][0], **part}]} if part and "pictures" in fields else {})}


def decided(actor, expert, one, seq, text):
    """Ask for an approval, a choice and a form, with a canary in each text of what is asked and of what is decided."""
    call = canaries.planted(ProposedCall, text, without=("id", "input_schema"))
    name, wide = text("form.name"), {"type": "string", "description": text("form.description")}
    schema_ = {"type": "object", "properties": {name: wide}}
    option = {**canaries.planted(Option, text, without=("id",)), "id": "o"}
    calls = [{**call, "id": number, "schema": schema_} for number in ("1", "2")]
    edit = {"id": "1", "verdict": "edit", "arguments": {name: f"{text('decision.arguments')} now"}}
    reject = {"id": "2", "verdict": "reject", "reason": text("decision.reason")}
    asks = [
        ({"kind": "approval", "calls": calls}, {"calls": [edit, reject]}),
        ({"kind": "choice", "options": [option], "other": True}, {"other": text("decision.other")}),
        ({"kind": "form", "response_schema": schema_}, {"value": {name: text("decision.value")}}),
    ]  # fmt: skip
    for place, (typed, decision) in enumerate(asks, seq):
        wanted = {
            "episode": one.pk,
            "key": f"typed {place}",
            "seq": place,
            "turn": place,
            "question": "Which?",
            **typed,
        }
        ask, _ = opening.open_ask(actor, AskOpen.model_validate(wanted))
        lease = queue.claim(expert, ask.pk)
        advising.answer(expert, lease.assignment_id, lease.lease_token, text("note"), "n", decision=decision)
    return seq + len(asks) - 1


def shared(actor, expert, one, seq):
    """Ask for an approval of two people that only one of them approves in time."""
    wanted = {"episode": one.pk, "key": "shared", "seq": seq, "turn": seq, "question": "Which?", "kind": "approval"}
    wanted |= {"calls": [{"id": "1", "name": "pay"}], "on_timeout": "reject", "quorum": {"of": 2}}
    ask, _ = opening.open_ask(actor, AskOpen.model_validate(wanted))
    lease = queue.claim(expert, ask.pk)
    approved = {"calls": [{"id": "1", "verdict": "approve"}]}
    advising.answer(expert, lease.assignment_id, lease.lease_token, "", "n", decision=approved)
    Ask.objects.filter(pk=ask.pk).update(deadline_at=timezone.now())
    assert closing.close_if_due(ask.pk).accepted.decision


def written(store, project, recipe, number):
    """All text of the dataset of this recipe, with its manifest."""
    folder = store / f"made-{number}"
    folder.mkdir()
    plan = datasets.take_snapshot(project, Recipe.read(recipe), folder)
    manifest = datasets.build(project, plan, folder, lambda *_: True)
    (folder / datasets.SNAPSHOT).unlink()
    return canaries.everything(folder, tokenizing.load(store / "tokenizers", "plain").text_of), manifest


def answered(actor, export, older, episodes):
    """All text of the pages, calls and commands that tell about a dataset."""
    web, api = as_person(actor), Client(headers={"Authorization": f"Bearer {token(actor.project, 'export')[1]}"})
    asked = [
        *(f"row?row={row}" for row in range(1, 4)), *(f"episode?episode={one.pk}" for one in episodes),
        f"compare?older={older.pk}", "",
    ]  # fmt: skip
    found = {f"API {ask}": api.get(f"/api/v1/exports/{export.pk}/{ask}".rstrip("/")).content.decode() for ask in asked}
    for ask in (*(f"?row={row}" for row in range(1, 4)), f"?episode={episodes[0].pk}", f"compare?with={older.pk}"):
        found[f"page {ask}"] = html(web.get(f"/exports/{export.pk}/{ask}"))
    for said in (["explain", export.pk, "--row", "1"], ["explain", export.pk, "--episode", episodes[-1].pk],
                 ["diff", older.pk, export.pk, "--rows"]):  # fmt: skip
        out = io.StringIO()
        call_command(*said, "--project", actor.project.slug, stdout=out)
        found[f"command {said[0]}"] = out.getvalue()
    return found


class Canaries:
    """Texts with a number each, by the field that they were planted in."""

    def __init__(self, made, seen):
        self.made, self.seen, self.fields = made, re.compile(seen), {}

    def __call__(self, path):
        number = self.fields.setdefault(path, len(self.fields))
        return self.made(number)

    def in_(self, text):
        names = {number: path for path, number in self.fields.items()}
        return {names[int(number)] for number in self.seen.findall(text)}


SECRETS = Canaries(lambda number: f"no{number} glpat-{number:020d} ", r"glpat-(\d{20})")


ELSEWHERE = (
    *("RunStart.arm", "RunStart.key", "RunStart.metadata", "RunStart.policy", "RunStart.plan", "TrainingStepReport."),
    *(
        "EpisodeStart.key",
        "EpisodeStart.parent",
        "EpisodeStart.run",
        "EpisodeStart.split",
        "Finish.detail",
        "Finish.outcome",
        "Outcome.",
    ),
    *("AskOpen.episode", "AskOpen.group_key", "AskOpen.key", "AskOpen.skills", "AnswerBody.lease_token"),
    *("AnswerBody.nonce", "AnswerBody.tool_calls.name", "Briefing.author", "ToolCallStep.error"),
    *("correction", "picture", "pinned", "tag"),
    *("Message.pictures.blob", "assistant.pictures.blob", "AskOpen.pictures.blob"),
)
"""What no row of `raw` has, because another value stands there or none does."""


@pytest.fixture
def world(ada, store):
    """Episodes with canaries in all fields, and a run that reports to a curriculum."""
    tokenizer_in(store / "tokenizers" / "plain", PLAIN)
    return person(ada.project, "zorblaxia", "expert")


def test_no_byte_has_a_secret_or_a_name_of_any_field(ada, world, store):
    one = lived(ada, world, "one", SECRETS, two_people=True)
    other = lived(ada, world, "other", SECRETS)
    lived(ada, world, "shown", SECRETS, has_pictures=True)
    Episode.objects.filter(pk=other.pk).update(split=SECRETS("split"))
    training.report(ada, one.run_id, shaped(TrainingStepReport, SECRETS))
    pinning.pin(ada, "pinned", unit="task", seed=1, train=[f"{SECRETS('pinned')}/3"], val=[])
    taking.current(Run.objects.get(pk=one.run_id))
    assert len(SECRETS.fields) > 60, "fields are derived from the shapes of the record"
    found = {}
    for number, recipe in enumerate(canaries.recipes()):
        include = ["reported", "corrections"] if recipe["format"] == "dpo" else ["reported"]
        texts, manifest = written(store, ada.project, {**recipe, "include": include}, number)
        name = f"{recipe['format']} {recipe.get('advice')}"
        assert manifest["rows"] or recipe.get("advice") in ("drop", "distil"), name
        packed = (".eval", ".png")
        data = [text for file, text in texts.items() if file.startswith("data/") and not file.endswith(packed)]
        assert manifest["redacted"] == sum((marks_in(text.encode()) for text in data), Counter()), name
        found |= {f"{name} {file}": text for file, text in texts.items()}
    plain, _ = written(store, ada.project, {"format": "raw", "redact": "off"}, "plain")
    unseen = SECRETS.fields.keys() - SECRETS.in_(plain["data/train.jsonl"])
    # `acted_by` is an opaque ID in every file
    unseen = {path for path in unseen if not path.startswith(ELSEWHERE) and not path.endswith(".acted_by")}
    assert unseen == set(), "the search sees all other fields"
    export, older = (
        built(ada, include=["reported"]),
        built(ada, format="sft", include=["reported"], advice="keep_masked"),
    )
    found |= answered(ada, export, older, [one, other])
    found["preview"] = html(as_person(ada).get("/exports/preview?format=raw"))
    leaks = {place: SECRETS.in_(text) for place, text in found.items() if SECRETS.in_(text) or "zorblaxia" in text}
    assert leaks == {}


PEOPLE = Canaries(lambda number: f"of person{number:04}@example.org ", r"person(\d{4})@example")
MARKED = Canaries(lambda number: f"canary{number:04}x", r"canary(\d{4})x")
HELD_OUT = "Merge the two newest duplicate tickets of the customer Dockside and close the older one for Ruben"


def read(project, recipe):
    """The records of a recipe, as a build reads them."""
    entries = list(entries_of(project, recipe, matching(project, recipe)))
    return reader_for(project, recipe, Redactor(recipe, salt=project.pk)).read(entries)


def line_of(record, recipe, tasks, verifier=None):
    """What a format writes of a record, and the reason why it is left out."""
    known = Ground(recipe, tasks=tasks, verifier_of=lambda _record: verifier or VerifierWords(()))
    walk = Walk(FORMATS[recipe.format], known)
    return b"".join(row.line for row in walk.rows([record])).decode(), walk.counts.left_out


def test_no_byte_has_a_mail_address_of_any_field(ada, world, store):
    one = lived(ada, world, "one", PEOPLE)
    lived(ada, world, "shown", PEOPLE, has_pictures=True)
    Episode.objects.filter(pk=one.pk).update(split="train")
    training.report(ada, one.run_id, shaped(TrainingStepReport, PEOPLE))
    pinning.pin(ada, "pinned", unit="task", seed=1, train=[f"{PEOPLE('pinned')}/3"], val=[])
    taking.current(Run.objects.get(pk=one.run_id))
    plain = {name: written(store, ada.project, about_mail(name, "off"), f"plain-{name}")[0] for name in KINDS}
    seen = {name: PEOPLE.in_("".join(texts.values())) for name, texts in plain.items()}
    assert len(seen["raw"]) > 30 and seen["curriculum"] and len(seen["tokens"]) > 10
    for name in KINDS:
        texts, manifest = written(store, ada.project, about_mail(name, "personal"), f"personal-{name}")
        leaks = {file: PEOPLE.in_(text) for file, text in texts.items() if PEOPLE.in_(text)}
        assert leaks == {} and (manifest["redacted"].get("email") or not seen[name]), name


def about_mail(name, redact):
    more = {"tokenizer": "plain"} if KINDS[name].takes_tokenizer else {}
    return {
        "format": name,
        "redact": redact,
        **({} if KINDS[name].is_curriculum else {"include": ["reported"]}),
        **more,
    }


def test_no_file_has_a_secret_that_is_a_pattern_itself(ada, world, store):
    """Who has one secret of their own writes it as the pattern."""
    lived(ada, world, "one", lambda path: "hunter-lake.7731 " if path == "last" else "x")
    for number, regex in enumerate(("hunter-lake.7731", r"\bhunter\-lake\.7731\b", r"(?i)HUNTER-LAKE\.7731")):
        own = [{"name": "ours", "regex": regex}, {"name": "other", "regex": "case-[0-9]{6}"}]
        texts, manifest = written(store, ada.project, {"format": "raw", "patterns": own}, number)
        told = [file for file, text in texts.items() if "hunter" in text.casefold()]
        assert not told and manifest["redacted"]["ours"] >= 1
        kept = [one["regex"] for one in manifest["recipe"]["patterns"]]
        assert kept == [r"\[redacted:ours\]", "case-[0-9]{6}"] and Recipe.read(manifest["recipe"])


@pytest.mark.parametrize("shape", ["sft", "ask_decision", "prompts", "raw", "atif"])
@pytest.mark.parametrize("of", ["task", "code", "criteria"])
def test_text_not_to_learn_in_any_field_is_left_out_or_marked(ada, world, store, shape, of):
    lived(ada, world, "one", MARKED)
    recipe, is_task = Recipe.read({"format": shape, "include": ["reported"]}), of == "task"
    rule = "held_out_text" if is_task else "verifier_text"
    verifier = {
        "task": VerifierWords(()),
        "code": VerifierWords([HELD_OUT]),
        "criteria": VerifierWords((), [HELD_OUT]),
    }[of]
    tasks = HeldOutTasks({"desk/1": HELD_OUT} if is_task else {})
    (record,) = read(ada.project, recipe)
    line, _ = line_of(record, recipe, tasks, verifier)
    seen = {path for path in MARKED.in_(line) if not path.startswith(("EpisodeStart.task", "EpisodeStart.scenario"))}
    assert len(seen) >= (2 if shape == "prompts" else 15)
    names = ("steps", "tools", "policy", "arm", "run", "checkpoint", "group_key", "environment")
    names += ("final_answer", "split", "policy_kind", "policy_name")
    missed = {}
    for path in sorted(seen):
        fields = {name: getattr(record, name) for name in names}
        planted = json.loads(json.dumps(fields).replace(MARKED(path), HELD_OUT))
        planted["tags"] = {3: {"question_needed": HELD_OUT}} if path == "tag" else {}
        line, left_out = line_of(replace(record, **planted), recipe, tasks, verifier)
        is_marked = f'"not_for_training":"{rule}"' in line if is_task else HELD_OUT not in line and bool(line)
        if not (left_out == {rule: 1} or is_marked):
            missed[path] = dict(left_out)
    assert missed == {}


@pytest.mark.parametrize("mode", ["drop", "distil"])
def test_advice_that_is_cut_is_in_no_row_to_learn(ada, world, store, mode):
    """Neither what the expert wrote, nor the same word where the agent repeats it after the advice."""
    lived(ada, world, "one", MARKED)
    ours = ("AnswerBody.", "AnswerFile.")
    told = {path for path in MARKED.fields if path.startswith(ours) and not path.startswith(ELSEWHERE)}
    assert len(told) >= 4, "its text, names and values of its calls, and the name of its file"
    for name in (
        name for name, kind in KINDS.items() if kind.trains and not (kind.is_curriculum or kind.takes_tokenizer)
    ):
        recipe = Recipe.read({"format": name, "include": ["reported"], "advice": mode})
        for record in read(ada.project, recipe):
            whole = json.dumps({"steps": record.steps, "final_answer": record.final_answer})
            repeated = json.loads(whole.replace(MARKED("last"), MARKED("AnswerBody.text")))
            for one in (record, replace(record, **repeated)):
                line, left_out = line_of(one, recipe, HeldOutTasks())
                assert MARKED.in_(line).isdisjoint(told), (name, left_out)
