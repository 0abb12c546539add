"""What a run cost: hand-computed money, counted from steps and calls, at the prices of the launch."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.core.management import call_command
from django.utils import timezone

from awmclient.choosing.chat import EndpointConfig
from awmclient.schema import STEP, AskOpen, Finish
from awmweb.variables import price_table
from episodes.models import Episode
from episodes.record import ending, recording
from experts.models import Ask, ModelCall
from experts.record import desk, opening
from experts.rules import token_counts
from people.access import expert_model, system
from runs.launch import estimating, launching, planning
from runs.plan import spending
from runs.statistics.costs import (
    Bill,
    TokenPrice,
    Tokens,
    dollars,
    price_of,
    rates_in,
    tokens_of,
)
from tests.browsing import as_person, html
from tests.people_by_name import token
from tests.runs.planned import document, end, launched

TABLE = "big: {input: 2.0, output: 10.0, cached: 0.5}\nsmall: {input: 0.1, output: 0.4}\n"
ARMS = [{"name": "alone", "policy": "model"}, {"name": "helped", "policy": "model:tuned", "expert": "plain"}]


def test_money_of_tokens_has_hand_computed_values():
    rate = TokenPrice(input=2.0, output=10.0, cached=0.5)
    # 600,000 fresh x 2 + 400,000 cached x 0.5 + 50,000 x 10, per million
    assert price_of(Tokens(1_000_000, 50_000, 400_000), rate) == pytest.approx(1.2 + 0.2 + 0.5)
    assert price_of(Tokens(1_000_000, 50_000, 400_000), TokenPrice(input=2.0, output=10.0)) == pytest.approx(2.5)
    assert [dollars(one) for one in (0.0, 0.004, 0.25, 1234.5)] == ["$0.00", "<$0.01", "$0.25", "$1,234.50"]


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}, Tokens(7, 3)),
        ({"prompt_tokens": 7, "prompt_tokens_details": {"cached_tokens": 9}}, Tokens(7, 0, 7)),
        ({"prompt_tokens": 7, "prompt_tokens_details": None, "completion_tokens": "3"}, Tokens(7)),
        ({"completion_tokens": 9, "completion_tokens_details": {"reasoning_tokens": 7}}, Tokens(0, 9, reasoning=7)),
        ({"completion_tokens": 3, "completion_tokens_details": {"reasoning_tokens": 7}}, Tokens(0, 3, reasoning=3)),
        ({"completion_tokens": 3, "completion_tokens_details": [7]}, Tokens(0, 3)),
        ({"total_tokens": 10}, Tokens(untold=10)),
        ({"prompt_tokens": True, "completion_tokens": -3}, Tokens()),
        (None, Tokens()),
    ],
)
def test_usage_is_read_as_endpoints_write_it(usage, tokens):
    assert tokens_of(usage) == tokens


def test_bill_names_what_it_can_not_price():
    bill = Bill()
    bill.add("big", Tokens(1000, 100), TokenPrice(input=2.0, output=10.0))
    bill.add("none", Tokens(), None)
    assert bill.unknown == [] and bill.priced == pytest.approx(0.003)
    bill.add("other", Tokens(5), None)
    bill.add("big", Tokens(untold=1500), TokenPrice(input=2.0, output=10.0))
    bill.uncounted(1)
    assert bill.unknown == [
        *("other has no price", "1,500 tokens of big are not told apart", "1 episode without counted tokens")
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("big: {input: 1}", "big.output: Field required"),
        ("big: {input: -1, output: 1}", "big.input"),
        ("big: {input: .inf, output: 1}", "big.input"),
        ("big: {input: 1, output: 1, eur: 2}", "big.eur"),
        ("big: 3", "big: "),
        ("- big", "expected models with their prices"),
        ("big: {", "not YAML"),
    ],
)
def test_bad_price_table_says_where(text, problem):
    with pytest.raises(ValueError, match=problem):
        rates_in(text)


def test_setting_reads_a_table_or_stops_the_start(tmp_path, monkeypatch):
    monkeypatch.setenv("AWMWEB_PRICES", str(tmp_path / "prices.yaml"))
    with pytest.raises(SystemExit, match="AWMWEB_PRICES: .*No such file"):
        price_table("AWMWEB_PRICES")
    (tmp_path / "prices.yaml").write_text(TABLE)
    assert price_table("AWMWEB_PRICES")["small"] == TokenPrice(input=0.1, output=0.4)
    monkeypatch.delenv("AWMWEB_PRICES")
    assert price_table("AWMWEB_PRICES") == {}


@pytest.fixture
def models(settings, monkeypatch):
    """Two agent models and an expert model with prices; nothing plays."""
    monkeypatch.setattr(launching, "wake_worker", lambda pk, delay_s=0: None)
    at = "http://127.0.0.1:9/v1"
    settings.AGENT_ENDPOINTS = {"agent": EndpointConfig(at, "big"), "tuned": EndpointConfig(at, "small")}
    settings.EXPERT_ENDPOINTS = {"expert": EndpointConfig(at, "big")}
    settings.PRICES = rates_in(TABLE)
    return settings


def said(actor, episode, *usages):
    """Record turns of a model with these counts."""
    for usage in usages:
        seq = Episode.objects.get(pk=episode).last_seq + 1
        turn = {"seq": seq, "kind": "message", "role": "assistant", "content": '"usage"', "usage": usage}
        recording.append_steps(system(actor.project), episode, [STEP.validate_python(turn)])


def finished(actor, episode):
    ending.finish(system(actor.project), episode, Finish(stop_reason="done"))


def a_run(ada):
    """One task: alone with 2,000 and 100 tokens, helped with 30,000 and 2,000 and an expert model's call."""
    plan = launched(ada, tasks=["helpdesk_1/0"], arms=ARMS)
    alone, helped = (plan.tries.get(arm__name=name).episode_id for name in ("alone", "helped"))
    assert recording.begin(alone, "w") and recording.begin(helped, "w")
    said(ada, alone, {"prompt_tokens": 1000, "completion_tokens": 60}, {"prompt_tokens": 1000, "completion_tokens": 40})
    said(ada, helped, {"prompt_tokens": 30_000, "completion_tokens": 2000})
    opening.open_ask(system(ada.project), AskOpen(key="q", episode=helped, seq=2, question="Which?"))
    model = expert_model(ada.project, "expert")
    desk.called(model, Ask.objects.get(), "answer", tokens=1100, duration_s=1.0, by_kind=(1000, 100, 800))
    return plan, alone, helped


@pytest.mark.django_db
def test_arms_cost_what_their_steps_and_calls_counted(ada, models):
    plan, alone, _ = a_run(ada)
    finished(ada, alone)
    now = timezone.now()
    Episode.objects.filter(pk=alone).update(started_at=now - timedelta(seconds=40), ended_at=now)
    first, second = spending.costs_of(plan.run)
    assert (first.arm, first.episodes, first.agent, first.expert) == ("alone", 1, Tokens(2000, 100), Tokens())
    assert first.usd == pytest.approx((2000 * 2 + 100 * 10) / 1e6) and first.wall_s == pytest.approx(40)
    assert (second.agent, second.expert) == (Tokens(30_000, 2000), Tokens(1000, 100, 800))
    assert second.usd == pytest.approx((30_000 * 0.1 + 2000 * 0.4 + 200 * 2 + 800 * 0.5 + 100 * 10) / 1e6)
    assert (first.money, second.money) == ("<$0.01", "<$0.01")


@pytest.mark.django_db
def test_later_price_changes_no_run_and_none_is_unknown(ada, models):
    plan, *_ = a_run(ada)
    before = [one.usd for one in spending.costs_of(plan.run)]
    models.PRICES = rates_in("big: {input: 500, output: 500}")
    assert [one.usd for one in spending.costs_of(plan.run)] == before
    later = launched(ada, tasks=["helpdesk_1/0"], arms=ARMS)
    said(ada, later.tries.get(arm__name="helped").episode_id, {"prompt_tokens": 1, "completion_tokens": 1})
    first, second = spending.costs_of(later.run)
    assert first.usd == 0.0 and second.usd is None and second.money == "unknown: small has no price"
    plan.prices = {}
    plan.save()
    assert [one.usd for one in spending.costs_of(plan.run)] == [None, None], "a run from before prices"


@pytest.mark.django_db
def test_money_of_a_cut_call_is_unknown(ada, models):
    plan, alone, _ = a_run(ada)
    ending.fail(system(ada.project), alone, "model", "no answer within 120 s")
    model = expert_model(ada.project, "expert")
    desk.called(model, Ask.objects.get(), "draft", tokens=0, duration_s=9.0, fault="no answer within 9 s")
    desk.called(model, Ask.objects.get(), "draft", tokens=0, duration_s=0.0, fault="the endpoint answered 429: busy")
    words = ("1 call was cut before tokens were counted",)
    assert [(cost.usd, cost.unknown) for cost in spending.costs_of(plan.run)] == [(None, words), (None, words)]


@pytest.mark.django_db
def test_call_without_kinds_or_counts_leaves_money_unknown(ada, models):
    plan, alone, _ = a_run(ada)
    ModelCall.objects.all().delete()
    desk.called(expert_model(ada.project, "expert"), Ask.objects.get(), "answer", tokens=1500, duration_s=1.0)
    assert spending.costs_of(plan.run)[1].unknown == ("1,500 tokens of big are not told apart",)
    other = launched(ada, tasks=["helpdesk_1/0"], arms=ARMS)
    end(other.tries.get(arm__name="alone").episode_id)
    assert spending.costs_of(other.run)[0].money == "unknown: 1 episode without counted tokens"
    assert alone  # the first run's own episode stays as it was counted
    assert spending.costs_of(plan.run)[0].usd == pytest.approx(0.005)


@pytest.mark.django_db
def test_replaced_episodes_are_paid_for(ada, models):
    plan, alone, _ = a_run(ada)
    ending.fail(system(ada.project), alone, "environment", "gone")
    assert planning.retry(ada, plan.run_id) == 1
    again = plan.tries.get(arm__name="alone").episode_id
    assert again != alone
    said(ada, again, {"prompt_tokens": 500, "completion_tokens": 0})
    assert spending.costs_of(plan.run)[0].agent == Tokens(2500, 100)


@pytest.mark.django_db
def test_ended_episodes_are_read_once_and_live_ones_again(ada, models, monkeypatch):
    plan, alone, helped = a_run(ada)
    finished(ada, alone)
    read, asked = spending._read_tokens, []
    monkeypatch.setattr(spending, "_read_tokens", lambda ids: asked.append(set(ids)) or read(ids))
    costs = spending.costs_of(plan.run)
    said(ada, helped, {"prompt_tokens": 0, "completion_tokens": 5})
    assert spending.costs_of(plan.run)[1].agent == Tokens(30_000, 2005) and spending.costs_of(plan.run)[0] == costs[0]
    assert asked == [{alone, helped}, {helped}, {helped}]
    Episode.objects.filter(pk=alone).update(state="running")
    said(ada, alone, {"prompt_tokens": 7, "completion_tokens": 0})
    Episode.objects.filter(pk=alone).update(state="finished")
    assert spending.costs_of(plan.run)[0].agent == Tokens(2007, 100), "it got a further step"


def test_memory_of_tokens_is_bounded(monkeypatch):
    monkeypatch.setattr(spending, "KEPT", 3)
    kept = spending._Kept()
    for number in range(5):
        kept.keep({(f"e{number}", 2): Tokens(number)})
    assert kept.of({f"e{number}": 2 for number in range(5)}) == {f"e{number}": Tokens(number) for number in (2, 3, 4)}
    assert kept.of({"e4": 3, "e3": None}) == {}


@pytest.mark.django_db
def test_estimate_has_the_money_of_earlier_episodes(ada, models):
    _, alone, _ = a_run(ada)
    finished(ada, alone)
    found = estimating.estimate(ada, document(arms=ARMS), 300)
    assert found.usd == pytest.approx(300 * 0.005)
    assert found.words.endswith(", 630,000 tokens, $1.50. Nothing is known of helped.")
    models.PRICES = {}
    found = estimating.estimate(ada, document(arms=ARMS), 300)
    assert found.usd is None
    assert found.words.endswith("money unknown. Nothing is known of helped. Money: big has no price.")


@pytest.mark.django_db
def test_page_api_and_report_show_costs(ada, rita, max_, models, tmp_path, client):
    plan, *_ = a_run(ada)
    assert f"/runs/{plan.pk}/costs" in html(as_person(rita).get(f"/runs/{plan.pk}/"))
    page = html(as_person(rita).get(f"/runs/{plan.pk}/costs"))
    assert "30,000" in page and "&lt;$0.01" in page
    assert as_person(max_).get(f"/runs/{plan.pk}/costs").status_code == 404
    header = {"HTTP_AUTHORIZATION": f"Bearer {token(ada.project, 'launch')[1]}"}
    found = client.get(f"/api/v1/runs/{plan.pk}", **header).json()
    assert [one["usd"] for one in found["costs"]] == [pytest.approx(0.005), pytest.approx(0.0056)]
    assert found["prices"]["agent"]["tuned"] == {
        "model": "small",
        "rate": {"input": 0.1, "output": 0.4, "cached": None},
    }
    call_command("report", "--run", plan.pk, "--output", str(tmp_path), "--project", "lab")
    assert "| helped | 1 | 30,000 | 2,000 | 1,100 | 0 | 0 |" in (tmp_path / "report.md").read_text()
    assert "helped,1,30000,0,2000,0,1100,0,0.0056,,0.0,0.0" in (tmp_path / "costs.csv").read_text()


def test_expert_model_counts_by_kind_where_told():
    told = {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 20}}
    assert token_counts.counts_by_kind(told) == (9, 2, 9)
    for usage in ({"total_tokens": 11}, {"prompt_tokens": -1, "completion_tokens": 2}, {"prompt_tokens": True}):
        assert token_counts.counts_by_kind(usage) is None
