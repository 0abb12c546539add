"""The official SDK of OpenTelemetry with two real instrumentations: what they send becomes an episode."""

from __future__ import annotations

import json

import pytest

from tests.frameworks.story import ANSWER, INSTRUCTIONS, LOOKS, SAYS, TASK, look_up, model
from tests.running import until

pytestmark = pytest.mark.frameworks
PATIENCE_S = 60
OFFERED = {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object", "properties": {}}}}
OUTLINE = [
    ("message", INSTRUCTIONS, None),
    ("message", TASK, None),
    ("message", "Let me look.", None),
    ("tool_call", {"item": "tea"}, "no shelf of tea"),
    ("tool_call", {"item": "coffee"}, {"item": "coffee", "left": 0}),
    ("message", ANSWER, None),
]


def instrumentation(name, provider, monkeypatch):
    if name == "openinference":
        from openinference.instrumentation.openai import OpenAIInstrumentor
    else:
        monkeypatch.setenv("OTEL_SEMCONV_STABILITY_OPT_IN", "gen_ai_latest_experimental")
        monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "span_only")
        from opentelemetry.instrumentation.genai.openai import OpenAIInstrumentor
    found = OpenAIInstrumentor()
    found.instrument(tracer_provider=provider)
    return found


KINDS = {
    "openinference": ({"openinference.span.kind": "AGENT"}, {"openinference.span.kind": "TOOL"}),
    "genai": ({"gen_ai.operation.name": "invoke_agent"}, {"gen_ai.operation.name": "execute_tool"}),
}


def play(tracer, base_url, agent, tool):
    """Act as an agent that calls its tools one after the other."""
    from openai import OpenAI

    client = OpenAI(base_url=base_url, api_key="none")
    messages = [{"role": "system", "content": INSTRUCTIONS}, {"role": "user", "content": TASK}]
    with tracer.start_as_current_span("clerk", attributes={**agent, "gen_ai.agent.name": "clerk"}):
        while True:
            said = client.chat.completions.create(model="small", messages=messages, tools=[OFFERED]).choices[0].message
            messages.append(said.model_dump(exclude_none=True))
            for call in said.tool_calls or []:
                about = {**tool, "tool.name": "look_up", "tool_call.id": call.id}
                about |= {"input.value": call.function.arguments}
                text = ""
                try:
                    with tracer.start_as_current_span("look_up", attributes=about) as span:
                        text = json.dumps(look_up(**json.loads(call.function.arguments)))
                        span.set_attribute("output.value", text)
                except ValueError as error:
                    text = str(error)
                messages.append({"role": "tool", "tool_call_id": call.id, "content": text})
            if not said.tool_calls:
                return


def outline(steps):
    found = []
    for step in steps:
        if step["kind"] == "tool_call":
            came = step.get("error") or step["result"]
            came = json.loads(came) if came.startswith("{") else came.removeprefix("ValueError: ")
            found.append(("tool_call", step["arguments"], came))
        else:
            found.append((step["kind"], step.get("content"), None))
    return found


@pytest.mark.parametrize("name", KINDS)
def test_spans_of_the_sdk_become_an_episode(name, house, agent_token, monkeypatch):
    from opentelemetry.exporter.otlp.proto.http import Compression
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider()
    exporter = OTLPSpanExporter(
        f"{house.url}/v1/traces", headers={"Authorization": f"Bearer {agent_token}"}, compression=Compression.Gzip
    )
    provider.add_span_processor(BatchSpanProcessor(exporter))
    real = instrumentation(name, provider, monkeypatch)
    try:
        with model(LOOKS, SAYS) as server:
            play(provider.get_tracer("clerk"), server.base_url, *KINDS[name])
    finally:
        real.uninstrument()
        # sends what is left
        provider.shutdown()
    with house.http(agent_token) as http:

        def found():
            items = http.get("/episodes", params={"q": TASK}).json()["items"]
            return [one for one in items if one["key"].startswith("otlp/") and one["id"] not in seen]

        seen = SEEN
        episode = until(found, PATIENCE_S, every=0.5)[0]
        seen.add(episode["id"])
        steps = http.get(f"/episodes/{episode['id']}/steps").json()["steps"]
    assert outline(steps) == OUTLINE
    assert (episode["state"], episode["task"]) == ("finished", TASK)
    assert steps[2]["meta"]["otlp"]["span"]


SEEN: set[str] = set()
"""Episodes of earlier tests of this file."""
