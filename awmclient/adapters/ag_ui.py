"""AG-UI: the interrupts of a run, decided at the desk; and the entries with which the next run resumes.

pauses = Pauses(dash, "orders")
resume = await pauses.resume(finished, messages=given.messages, tools=given.tools)
following = RunAgentInput(thread_id=..., run_id="2", messages=[], resume=resume)
await pauses.ended(event)  # the RUN_FINISHED of a run that resumed
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from awmclient.adapters import pausing
from awmclient.adapters.missing import missing
from awmclient.nouns.interrupts import RunInterrupts

try:
    from ag_ui.core import Interrupt, Message, ResumeEntry, RunFinishedEvent, Tool
except ImportError as error:
    raise missing("AG-UI", "ag-ui-protocol", error) from error


class Pauses(pausing.Pauses):
    """The interrupts of AG-UI runs. Both ends of the protocol can use it: the agent's server, or its client."""

    async def resume(
        self, event: RunFinishedEvent, *, messages: Sequence[Message] = (), tools: Sequence[Tool] = ()
    ) -> list[ResumeEntry]:
        """Return the entries that resume a run, one for each of its interrupts; empty if it did not pause.

        `messages` and `tools` show the calls that wait for approval.
        """
        fields = {
            **_plain(event),
            "messages": [_plain(one) for one in messages],
            "tools": [_plain(one) for one in tools],
            "deadlineS": self.deadline_s,
            "client": self.client,
        }
        paused = RunInterrupts.model_validate(fields)
        if not pauses_of(event):
            return []
        view = await self.wait(paused)
        return [ResumeEntry.model_validate(one.model_dump(by_alias=True, exclude_none=True)) for one in view]

    async def ended(self, event: RunFinishedEvent) -> None:
        """Confirm what a thread has read, after a run of it ended. A run that was stopped withdraws its asks."""
        if not pauses_of(event):
            await self.wait(RunInterrupts.model_validate({"outcome": {"type": "success"}, **_plain(event)}))


def pauses_of(event: RunFinishedEvent) -> list[Interrupt]:
    return list(getattr(event.outcome, "interrupts", None) or [])


def _plain(model: Any) -> dict[str, Any]:
    written: dict[str, Any] = model.model_dump(mode="json", by_alias=True, exclude_none=True)
    return written
