"""The kill matrix: kill -9 of each process in turn under several writers and watchers, two web processes behind one
port. Afterwards every acknowledged step is there exactly once and in order, and every watcher has the same steps as the
table without anybody's help. `make chaos` runs the whole matrix and prints what it did; `make test` a short form of it
on a product that other tests use as well (`tests/product/test_streaming.py`).
"""

from __future__ import annotations

import math
import os
import signal
import time

import pytest

from tests.chaos.actors import Watcher, Writer, content
from tests.running import product, until

EVERYTHING = ["one web process", "web", "worker", "rollouts", "env", "valkey", "postgres"]
STALL_S = 6.0
BACK_S = 90


def kill(house, name):
    """kill -9; returns what tells whether it is back."""
    if name == "one web process":
        name, dead = "web-2", house.children()["web-2"]
        os.kill(dead, signal.SIGKILL)
    else:
        dead = house.kill(name)
    return lambda: house.children().get(name, dead) != dead


class Load:
    """Writers and their watchers."""

    def __init__(self, house, writers, watchers_each):
        agent, self.began = house.token("agent"), time.monotonic()
        self.writers = [Writer(house, agent, **shape) for shape in writers]
        self.watchers = [Watcher(house, agent, writer.episode) for writer in self.writers for _ in range(watchers_each)]
        self.compared = dict.fromkeys((writer.episode for writer in self.writers), 0)
        for one in [*self.writers, *self.watchers]:
            one.start()

    def by_episode(self):
        return {writer.episode: writer for writer in self.writers}

    def on_their_way(self):
        """Every writer gets on, and every watcher comes to what was acknowledged before. Returns how long each took."""
        before, began = {writer.episode: writer.acknowledged for writer in self.writers}, time.monotonic()
        until(lambda: all(one.acknowledged > before[one.episode] or one.wrong for one in self.writers), 60)
        assert [one.wrong for one in self.writers if one.wrong] == []
        writing = time.monotonic() - began
        until(lambda: all(one.last >= before[one.episode] for one in self.watchers), 60)
        return writing, time.monotonic() - began

    def acknowledged(self):
        return sum(writer.acknowledged for writer in self.writers)

    def compare(self, ended=False):
        """What was acknowledged stands in the table, each step once, in order and as it was sent, and every watcher
        comes to have the same by itself. Returns how many steps were looked at: those since the last look."""
        looked_at = 0
        for episode, writer in self.by_episode().items():
            since, acknowledged = self.compared[episode], writer.acknowledged
            stored = writer.stored(since, math.inf if ended else acknowledged)
            self.compared[episode] = last = since + len(stored)
            assert [step["seq"] for step in stored] == list(range(since + 1, last + 1)) and last >= acknowledged > 0
            assert all(step["content"] == content(step["seq"], writer.size) for step in stored)
            for watcher in [one for one in self.watchers if one.episode == episode]:
                until(lambda watcher=watcher, last=last: watcher.last >= last, 60)
                assert all(watcher.steps[step["seq"]] == step["content"] for step in stored)
            looked_at += len(stored)
        return looked_at

    def settle(self):
        """Stop writing, and compare everybody with the whole table once more."""
        for writer in self.writers:
            writer.stop()
        self.compared = dict.fromkeys(self.compared, 0)
        looked_at = self.compare(ended=True)
        for watcher in self.watchers:
            watcher.stop()
        assert all(len(one.steps) == one.last == self.compared[one.episode] for one in self.watchers)
        return looked_at

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


def disturb(house, victims, writers, watchers_each):
    load = Load(house, writers, watchers_each)
    load.on_their_way()
    for name in victims:
        before, began = load.acknowledged(), time.monotonic()
        load.watchers[-1].stall(STALL_S)
        back = kill(house, name)
        until(back, BACK_S)
        until(house.healthy, 60)
        healthy = time.monotonic() - began
        writing, watching = load.on_their_way()
        more = load.acknowledged() - before
        print(
            f"kill -9 {name}: back after {healthy:.1f} s, writers on their way after {healthy + writing:.1f} s, "
            f"watchers after {healthy + watching:.1f} s, one of them stood still {STALL_S:.0f} s; {more} steps "
            f"acknowledged meanwhile; {load.compare()} stand, once and in order, the same at every watcher",
            flush=True,
        )
    print(f"at the end {load.settle()} steps, the same in the table and at every watcher", flush=True)
    load.print()


@pytest.mark.chaos
def test_the_whole_matrix():
    writers = [{}, {"twice": True}, {"batch": 1, "pause": 0.0}, {"batch": 10, "size": 20_000, "pause": 0.2}]
    with product(AWMWEB_WEB_PROCESSES="2", AWMWEB_DEMO="1", AWMWEB_HEARTBEAT_S="90") as house:
        disturb(house, EVERYTHING, writers, 2)
