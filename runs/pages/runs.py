"""Pages: the list of runs with the form that launches one, and one run with its comparison.

Owns forms and HTTP status. Leaves writes to `planning.py`, counts to `overview.py` and findings to `comparison.py`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from typing import Annotated, Any, NamedTuple

from django.conf import settings
from django.contrib import messages
from django.db.models import Q
from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods, require_POST
from pydantic import Field

from awmclient.asking.rules import RULES
from awmclient.choosing.options import options_in
from episodes.find.selection import newest
from episodes.models import Run, Split
from episodes.stored.packs import packs
from people.access import (
    MemberRequest,
    holds,
    may_advise,
    may_export,
    may_launch,
    may_read,
    member_required,
    scoped,
    visible_or_404,
)
from people.errors import AppError, NotFound
from people.requests.forms import FormFields, Stripped, in_form_words, is_named, number_of, read, text_of
from people.requests.parts import part_of
from people.text.in_words import count
from runs.errors import BadPlan
from runs.launch import estimating, launching, planning, preflight, selecting
from runs.models import Plan, PlanState
from runs.pages import one_run
from runs.plan import servers, spending
from runs.plan.plans import (
    PlanDocument,
    plan_from_yaml,
    plan_of,
    recipes,
)
from runs.play import person
from runs.show import charts, overview, rewarding, tables
from runs.show.comparison import compare_run
from runs.show.tables import TABLES, in_csv

PAGE = 30
run_of = member_required(may_read, rows=Run.objects.all)
"""A page of one run; its link works from any chosen project."""
OTHER = "other-policy"


class ArmPreset(NamedTuple):
    """An arm that the form offers: what it says of the arm, and the arm's settings in a plan."""

    words: str
    settings: dict[str, Any]


ARMS = {
    "baseline": ArmPreset("no expert", {"expert": "off"}),
    "expert": ArmPreset("people or models, blind", {"expert": "plain"}),
    "informed": ArmPreset("an expert that sees the verifier", {"expert": "informed"}),
    "briefed": ArmPreset("no expert, a person's briefing before the start", {"briefing": "human"}),
    "distilled": ArmPreset("no expert, a model's briefing from earlier episodes", {"briefing": "model"}),
    OTHER: ArmPreset("no expert, a policy of its own, selected below", {"expert": "off"}),
}
NUMBER = re.compile(r"-?[0-9]{1,9}(\.[0-9]{1,9})?")
ANSWERERS = {"1": "people alone", "0": "models alone", "0.5": "people or models, by draw for each episode"}
"""Shares of an arm's episodes that only people answer, with their labels in the form."""
COMMANDS = {
    "pause": (planning.pause, "Paused. Live episodes continue to their end."),
    "resume": (planning.resume, "Resumed."),
    "cancel": (planning.cancel, "Cancelled. Ended episodes are kept."),
}


@require_http_methods(["GET", "POST"])
@member_required(may_read)
def runs_page(request: MemberRequest) -> HttpResponse:
    """Show the runs; a POST launches one and opens it, or shows the form again with the errors."""
    if request.method != "POST":
        return _list(request, request.GET if is_named(request.GET, "launch") else QueryDict())
    may_launch(request.actor)
    try:
        document = document_of(request.POST)
        is_trial = text_of(request.POST, "start") == "preflight"
        if is_trial:
            document = preflight.trial(document, selecting.tasks_of(request.actor, document))
        plan, _ = planning.launch(request.actor, document)
    except AppError as refused:
        return _list(request, request.POST, in_form_words(refused.message), refused.status)
    launched = "Preflight launched." if is_trial else "Run launched."
    messages.success(request, launched if plan.state == PlanState.RUNNING else "Run planned.")
    return redirect("run", plan.pk)


def _list(request: MemberRequest, typed: QueryDict, problem: str = "", status: int = 200) -> HttpResponse:
    everything = scoped(Run.objects.all(), request.project)
    state = text_of(request.GET, "state").replace("\x00", "")
    condition = Q(plan__state=state) | overview.at_work() if state == PlanState.RUNNING else Q(plan__state=state)
    shown = everything.filter(condition) if state else everything
    runs, older = newest(shown, text_of(request.GET, "cursor"), PAGE)
    cards = overview.cards(request.actor, runs)
    form = read(typed, RunForm)
    # a form that comes back with an error keeps the arms that were chosen, even none
    chosen_arms = form.arms if request.method == "POST" or form.arms else ["baseline", "expert"]
    context = {
        "headline": _headline(overview.active(everything).count(), everything.exists()),
        "active": [card for card in cards if card.is_active],
        "planned": [card for card in cards if card.plan and card.plan.state == PlanState.PLANNED],
        "ended": [card for card in cards if card.plan and card.plan.ended_at],
        "external": [card for card in cards if card.plan is None and not card.is_active],
        "states": PlanState.choices,
        "state": state,
        "older": older,
        "may_launch": holds(request.actor, may_launch),
        "scenarios": sorted({name for pack in packs() for name in pack.scenarios}),
        "splits": list(scoped(Split.objects.all(), request.project).values_list("name", flat=True).distinct()[:100]),
        "arms": [_arm_of_form(name, chosen_arms, typed) for name in ARMS],
        "answerers": ANSWERERS,
        "own_settings": any(text_of(typed, f"{of}_{name}") for name in ARMS for of in ("policy", "people", "options")),
        "policies": _policies(),
        "environments": list(settings.ENVIRONMENTS),
        "recipes": list(recipes()),
        "asking_rules": {rule.example: rule.words for rule in RULES},
        "yaml": form.yaml or recipes().get(form.recipe, ""),
        "typed": typed,
        "chosen": form.scenarios,
        "problem": problem,
        "open": bool(typed or problem),
    }
    return render(request, "runs/list.html", context, status=status)


def _arm_of_form(name: str, chosen: Collection[str], typed: QueryDict) -> dict[str, Any]:
    fields = {
        "name": name,
        "words": ARMS[name].words,
        "on": name in chosen,
        "asks": ARMS[name].settings.get("expert", "off") != "off",
    }
    own = {of: text_of(typed, f"{of}_{name}") for of in ("policy", "people", "options")}
    return {**fields, **own}


def _headline(active: int, some: bool) -> str:
    if not some:
        return "No runs yet."
    return "No run is active." if not active else "1 run is active." if active == 1 else f"{active} runs are active."


def _policies() -> list[str]:
    scripts = {name for pack in packs() for scenario in pack.scenarios for name in pack.scripts(scenario, 0)}
    return [*launching.model_names(), *sorted(f"script:{name}" for name in scripts)]


class RunForm(FormFields):
    """A run to launch: its plan as YAML, or as fields. Settings of single arms are beside these, by the arm's name."""

    yaml: str = ""
    recipe: str = ""
    name: Stripped = ""
    tasks: str = ""
    scenarios: Annotated[list[str], Field(alias="scenario")] = []
    split: str = ""
    arms: Annotated[list[str], Field(alias="arm")] = []
    policy: str = "script:demo"
    environment: str = ""
    seeds: str = ""
    parallel: str = ""
    options: str = ""
    start: str = ""


def document_of(sent: QueryDict) -> PlanDocument:
    """Return the plan of the form: its YAML if there is any, else its fields. Raises `BadPlan`."""
    form = read(sent, RunForm)
    if text := form.yaml.strip():
        return plan_from_yaml(text)
    if not form.arms:
        raise BadPlan("Select at least one arm.")
    split = {"split": form.split, "side": "val"} if form.split else {}
    return plan_of(
        {
            "name": form.name,
            "tasks": re.findall(r"[^\s,;]+", form.tasks) or {"scenarios": form.scenarios or ["*"], **split},
            "arms": [
                {"name": name, **preset.settings, **_own_settings(sent, name)}
                for name, preset in ARMS.items()
                if name in form.arms
            ],
            "policy": form.policy,
            "environment": form.environment or servers.BUILTIN,
            "seeds": _number(form.seeds or "1"),
            "parallel": _number(form.parallel or "8"),
            "start": form.start != "later",
            **_options(form.options, "Options"),
        }
    )


def _options(text: str, label: str) -> dict[str, Any]:
    try:
        options = options_in(text)
    except ValueError as error:
        raise BadPlan(f"{label}: {error}.") from error
    return {"options": options} if options else {}


def _number(text: str) -> float | str:
    """Return the number in a field of the form; return any other text unchanged, for the plan to refuse."""
    return float(text) if NUMBER.fullmatch(text.strip()) else text


def _own_settings(sent: QueryDict, arm: str) -> dict[str, Any]:
    """Return the form's settings of one arm only: its policy, and who answers its asks. Raises `BadPlan`."""
    own: dict[str, Any] = {name: text for name in ("policy", "people") if (text := text_of(sent, f"{name}_{arm}"))}
    if "people" in own:
        own["people"] = _number(own["people"])
    own |= _options(text_of(sent, f"options_{arm}"), f"Options of {arm}")
    if arm == OTHER and "policy" not in own:
        raise BadPlan(f"Select a policy for the arm {OTHER}.")
    return own


@require_GET
@part_of("runs")
@member_required(may_launch)
def preview(request: MemberRequest) -> HttpResponse:
    """Return the number of episodes of the form's plan, or its errors."""
    words, problem = "", ""
    context: dict[str, Any] = {}
    try:
        document = document_of(request.GET)
        planning.check(document)
        tasks = selecting.tasks_of(request.actor, document)
        sizes = {
            "task": len(tasks),
            "arm": len(document.arms),
            "seed": document.seeds,
        }
        factors = " × ".join(f"{size:,} {name}{'' if size == 1 else 's'}" for name, size in sizes.items())
        words = f"{factors}: {count(math.prod(sizes.values()), 'episode')}."
        words += f" {estimating.estimate(request.actor, document, sizes['task']).words}"
        context = {
            "doubts": preflight.doubts(request.actor, document, tasks),
            "checked": preflight.checked(request.actor, document, tasks),
            "trial": preflight.newest(request.actor, document, tasks),
        }
        context["earned"] = preflight.earned(request.actor, context["trial"])
    except AppError as refused:
        problem = in_form_words(refused.message)
    return render(request, "runs/_preview.html", {"words": words, "problem": problem, **context})


@require_GET
@run_of
def run_page(request: MemberRequest, pk: str) -> HttpResponse:
    """Show one run: its finding, its progress, its tasks side by side. A run without a plan redirects to its
    episodes."""
    run = visible_or_404(Run.objects.all(), request.actor, pk)
    if not Plan.objects.filter(run=run).exists():
        return redirect(f"{reverse('episodes')}?run={run.pk}")
    comparison = compare_run(request.actor, pk)
    before, after = overview.beside(run)
    context = {
        **one_run.shown(request.actor, comparison),
        "run": run,
        "plan": comparison.plan,
        "before": before,
        "after": after,
        "may_export": holds(request.actor, may_export),
        "may_launch": holds(request.actor, may_launch),
        "to_play": person.to_play(request.actor, pk).count() if holds(request.actor, may_advise) else 0,
    }
    return render(request, "runs/run.html", context)


@require_GET
@part_of("run")
@run_of
def costs(request: MemberRequest, pk: str) -> HttpResponse:
    """Show the cost of each arm; a separate fragment, because it reads every turn of a model."""
    run = visible_or_404(Run.objects.all(), request.actor, pk)
    return render(request, "runs/_costs.html", {"costs": spending.costs_of(run)})


@require_GET
@run_of
def table_file(request: MemberRequest, pk: str, name: str) -> HttpResponse:
    """Return one table of a run's page as CSV."""
    if name not in TABLES:
        raise NotFound
    text = in_csv(name, compare_run(request.actor, pk, is_bare=True))
    headers = {"Content-Disposition": f'attachment; filename="run-{pk}-{name}.csv"'}
    return HttpResponse(text, content_type="text/csv; charset=utf-8", headers=headers)


@require_GET
@part_of("run")
@run_of
def reward_charts(request: MemberRequest, pk: str) -> HttpResponse:
    """Return the charts of shaped rewards. They read every step, so the page requests them only when a user scrolls
    there."""
    comparison = compare_run(request.actor, pk, is_bare=True)
    few = sum(arm.ended for arm in comparison.arms) <= one_run.REWARDS_DRAWN
    drawn = (
        charts.rewards(rewarding.rows(comparison.plan), comparison.arms, one_run.table_address(pk, "rewards"))
        if few
        else []
    )
    return render(request, "runs/_rewards.html", {"charts": drawn})


@require_POST
@member_required(may_launch, rows=Run.objects.all)
def command(request: MemberRequest, pk: str, name: str) -> HttpResponse:
    """Change the state of a run, retry failed episodes, or add seeds; then show the page with the button again."""
    try:
        if name == "retry":
            count = planning.retry(request.actor, pk)
            messages.success(request, "1 episode queued again." if count == 1 else f"{count:,} episodes queued again.")
        elif name == "seeds":
            # anything else is 0, which is refused with its limits
            planning.add_seeds(request.actor, pk, number_of(request.POST, "seeds") or 0)
            messages.success(request, "Seeds added. The result at the planned size stays as it is.")
        elif name in COMMANDS:
            change, words = COMMANDS[name]
            change(request.actor, pk)
            messages.success(request, words)
        else:
            raise NotFound
    except NotFound:
        raise
    except AppError as refused:
        messages.warning(request, refused.message)
    return redirect("runs") if text_of(request.POST, "back") == "runs" else redirect("run", pk)


@require_GET
@run_of
def plan_file(request: MemberRequest, pk: str) -> HttpResponse:
    """Return the plan as YAML, which launches the same run elsewhere."""
    plan = visible_or_404(Plan.objects.all(), request.actor, pk, "run__project")
    headers = {"Content-Disposition": f'attachment; filename="run-{plan.pk}.yaml"'}
    return HttpResponse(tables.plan_file(plan), content_type="application/yaml", headers=headers)
