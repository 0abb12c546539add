"""Prompts of a chat model: the system prompt, and the loop's messages beside the task.

Pure. Models read these texts and training data contains them: a changed word changes behavior. Called by the loop.
"""

from __future__ import annotations

from awmclient.nouns.values import ASK_TOOL

ACT = (
    "You carry out a task by calling tools. Look at the data before you change it, make only the changes that the task "
    "asks for, and read what each tool returns. If a call fails, read the error, correct the call and try again. "
    "When the task is done, or cannot be done, say so in a short final answer without any tool call."
)
ASK = (
    f"An expert can be asked with the tool {ASK_TOOL}. Try by yourself first. Ask when you are stuck: when a rule or a "
    "preference that you need is nowhere to be found, or when the same error comes back. Ask one clear question and "
    'say what you have tried. If the result says "no_advice", nobody answered: go on as well as you can by yourself, '
    "and do not ask the same again."
)
ACTIONS = (
    "You act in an environment. In each turn write exactly one JSON object, your next action, and nothing else. "
    "When the task is done, say so in a short final answer that is not JSON."
)
NUDGE = f"The last calls failed. If you are stuck, ask the expert with {ASK_TOOL}."
OFFERED = f"An expert is free to help now. If something that you need is missing, ask with {ASK_TOOL}."
"""The reminder of a rule that decides when help is offered (`asking.py`)."""
STALLED = f"The last steps brought nothing new. If you are stuck, ask the expert with {ASK_TOOL}."


def system_prompt(*, expert: bool, tools: bool = True) -> str:
    """Return the system prompt. It names the expert only if the agent can ask one."""
    return "\n\n".join([ACT if tools else ACTIONS, *([ASK] if expert else [])])
