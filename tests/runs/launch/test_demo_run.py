"""What the demo run consists of: a person is asked at once, every trade is seen, and nobody waits long for an end."""

from __future__ import annotations

from runs.launch import launching


def test_demo_asks_first_and_covers_all_scenarios(settings, tmp_path):
    settings.VAR = tmp_path  # no packs but those that come with the product
    helped, *alone = launching.demo_starts()
    assert (helped.scenario, helped.task_idx, helped.expert, helped.delay_s) == ("helpdesk_1", 1, "plain", 0)
    assert {start.expert for start in alone} == {"off"}
    scenarios = [scenario for pack in launching.packs() for scenario in pack.scenarios]
    assert len(scenarios) >= 4
    assert [start.scenario for start in alone] == [name for name in scenarios for _ in range(launching.DEMO_EACH)]
    assert [start.delay_s for start in alone[:4]] == [0, 0, 0, launching.DEMO_STAGGER_S]
    assert alone[-1].delay_s < 60
