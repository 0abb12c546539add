"""The kill matrix: kill -9 of each process in turn under several writers and watchers, two web processes behind one
port. Afterwards every acknowledged step is there exactly once and in order, and every watcher has the same steps as the
table without anybody's help. `make chaos` runs the whole matrix and prints what it did; `make test` a short form.
"""

from __future__ import annotations

import os
import signal
import time

import psutil
import pytest

from tests.chaos.actors import Watcher, Writer, content
from tests.running import product, until

EVERYTHING = ["one web process", "web", "worker", "rollouts", "env", "valkey", "postgres"]
STALL_S = 6.0


def kill(house, name):
    """kill -9; returns what tells whether it is back."""
    if name != "one web process":
        dead = house.kill(name)
        return lambda: house.children().get(name, dead) != dead
    parent = psutil.Process(house.children()["web"])
    victim = serving(parent)[0]
    os.kill(victim.pid, signal.SIGKILL)
    return lambda: victim.pid not in {one.pid for one in serving(parent)} and len(serving(parent)) == 2


def serving(parent):
    """The processes that hold the port, without multiprocessing's own."""
    return [one for one in parent.children() if _serves(one)]


def _serves(process):
    try:
        return "spawn_main" in " ".join(process.cmdline())
    except psutil.Error:  # ended meanwhile
        return False


class Load:
    """Writers and their watchers."""

    def __init__(self, house, writers, watchers_each):
        agent, self.began = house.token("agent"), time.monotonic()
        self.writers = [Writer(house, agent, **shape) for shape in writers]
        self.watchers = [Watcher(house, agent, writer.episode) for writer in self.writers for _ in range(watchers_each)]
        for one in [*self.writers, *self.watchers]:
            one.start()

    def by_episode(self):
        return {writer.episode: writer for writer in self.writers}

    def on_their_way(self):
        """Every writer gets on, and every watcher comes to what was acknowledged before."""
        before = {writer.episode: writer.acknowledged for writer in self.writers}
        until(lambda: all(one.acknowledged > before[one.episode] or one.wrong for one in self.writers), 60)
        assert [one.wrong for one in self.writers if one.wrong] == []
        until(lambda: all(one.last >= before[one.episode] for one in self.watchers), 60)

    def acknowledged(self):
        return sum(writer.acknowledged for writer in self.writers)

    def settle(self):
        """Stop writing, let the watchers come to the end by themselves, and compare everybody with the table."""
        for writer in self.writers:
            writer.stop()
        for episode, writer in self.by_episode().items():
            steps = writer.stored()
            assert [step["seq"] for step in steps] == list(range(1, len(steps) + 1))
            assert len(steps) >= writer.acknowledged > 0
            assert all(step["content"] == content(step["seq"], writer.size) for step in steps)
            self.compare([one for one in self.watchers if one.episode == episode], steps)
        for watcher in self.watchers:
            watcher.stop()

    def compare(self, watchers, steps):
        """They get to the end by themselves, and have what is stored."""
        until(lambda: all(one.last == len(steps) for one in watchers), 30)
        assert all(one.steps == {step["seq"]: step["content"] for step in steps} for one in watchers)

    def print(self):
        for writer in self.writers:
            print(
                f"  writer: {writer.acknowledged} steps acknowledged, {writer.repeated} batches repeated, "
                f"{writer.cut_off} calls cut off, {writer.refused} told to try again"
            )
        for one in self.watchers:
            print(
                f"  watcher: {one.last} steps, {one.frames} frames, {one.gaps} gaps, {one.jumps} jumps, "
                f"{one.reconnects} reconnects, {one.caught_up} steps caught up over HTTP"
            )


def run(victims, writers, watchers_each, **settings):
    with product(AWMWEB_WEB_PROCESSES="2", **settings) as house:
        load = Load(house, writers, watchers_each)
        load.on_their_way()
        for name in victims:
            before, began = load.acknowledged(), time.monotonic()
            load.watchers[-1].stall(STALL_S)
            back = kill(house, name)
            until(back, 60)
            until(house.healthy, 60)
            load.on_their_way()
            print(
                f"kill -9 {name}: everybody on the way after {time.monotonic() - began:.1f} s, "
                f"{load.acknowledged() - before} steps acknowledged meanwhile",
                flush=True,
            )
        load.settle()
        load.print()


def test_processes_may_die_under_writers_and_watchers_and_nobody_misses_a_step():
    run(["one web process", "valkey", "postgres"], [{}, {"twice": True}], 1)


@pytest.mark.chaos
def test_the_whole_matrix():
    writers = [{}, {"twice": True}, {"batch": 1, "pause": 0.0}, {"batch": 10, "size": 20_000, "pause": 0.2}]
    run(EVERYTHING, writers, 2, AWMWEB_DEMO="1")
