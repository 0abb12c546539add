"""A tiny OpenEnv environment that is not AWM: say a word backwards. `python examples/echo_env.py PORT` serves it."""

import sys
from typing import Any

import uvicorn
from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State


class Say(Action):
    """What the agent says."""

    word: str


class Heard(Observation):
    """What the environment answers."""

    hint: str


class Backwards(Environment[Say, Heard, State]):
    """Gives a word; done when it is said backwards."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    word = "curriculum"

    def __init__(self) -> None:
        super().__init__()
        self._state = State()

    def reset(self, seed: int | None = None, episode_id: str | None = None, **_: Any) -> Heard:
        self._state = State(episode_id=episode_id)
        return Heard(hint=f"say backwards: {self.word}")

    def step(self, action: Say, timeout_s: float | None = None, **_: Any) -> Heard:
        self._state.step_count += 1
        right = action.word == self.word[::-1]
        return Heard(hint="right" if right else f"no, {action.word!r} is not it", done=right, reward=float(right))

    @property
    def state(self) -> State:
        return self._state


if __name__ == "__main__":
    app = create_app(Backwards, Say, Heard, env_name="backwards", max_concurrent_envs=4)
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
