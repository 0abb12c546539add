"""The hub and the only publisher, with the real Valkey: coalescing, order, bounds, `gap`, and coming back."""

from __future__ import annotations

import asyncio
import json

import pytest
import redis

from episodes import events
from episodes.events import Teller, hint
from episodes.live.hub import (
    GAP_FRAME,
    QUEUE_BYTES,
    QUEUE_FRAMES,
    Hub,
    Lane,
    Listener,
    Pending,
    SocketListener,
)
from episodes.live.wire import Payload, SocketWriter

WAIT_S = 5


@pytest.fixture
def valkey(house_servers):
    return events.connection()


def step(seq):
    return f'{{"seq":{seq}}}'


def steps_hint(episode, *numbers):
    return hint(f"episode:{episode}", events.STEPS, episode, ",".join(step(seq) for seq in numbers))


def numbers(text):
    return [one["seq"] for one in json.loads(text)["steps"]]


async def heard(listener):
    """The next frame, which came alone."""
    (text,) = (await asyncio.wait_for(listener.get(), WAIT_S)).texts
    return text


def taken(listener):
    payload = listener.take()
    return payload and payload.texts[0]


async def past_the_first_gap(listener):
    """A new subscription begins with a gap."""
    assert await heard(listener) == GAP_FRAME


async def test_steps_of_several_hints_become_one_frame_in_their_order(valkey):
    async with Hub().listening("episode:e") as listener:
        await past_the_first_gap(listener)
        valkey.publish(events.CHANNEL, steps_hint("e", 1, 2) + steps_hint("other", 9) + steps_hint("e", 3))
        assert numbers(await heard(listener)) == [1, 2, 3]


async def test_everybody_on_a_topic_gets_the_very_same_text(valkey):
    one = Hub()
    async with one.listening("episode:e") as ada, one.listening("episode:e", "queue:p") as rita:
        await past_the_first_gap(ada)
        valkey.publish(events.CHANNEL, steps_hint("e", 1))
        assert await heard(ada) is await heard(rita)


async def test_nobody_hears_a_topic_that_is_not_theirs(valkey):
    async with Hub().listening("episode:e") as listener:
        await past_the_first_gap(listener)
        people = hint("episode:e:people", events.STEPS, "e", step(7))
        valkey.publish(events.CHANNEL, people + steps_hint("e", 1))
        assert numbers(await heard(listener)) == [1]


async def test_of_several_states_of_an_episode_the_last_is_told(valkey):
    async with Hub().listening("queue:p") as listener:
        await past_the_first_gap(listener)
        lines = [hint("queue:p", events.LAST, key, json.dumps([key, n])) for n in (1, 2) for key in ("e", "f")]
        valkey.publish(events.CHANNEL, "".join(lines))
        payload = await asyncio.wait_for(listener.get(), WAIT_S)
        assert [json.loads(text) for text in payload.texts] == [["e", 2], ["f", 2]]


async def test_what_wakes_a_call_waits_for_no_other_hint(valkey, monkeypatch):
    monkeypatch.setattr(events, "GATHER_S", 60)
    monkeypatch.setattr("episodes.live.hub.COALESCE_S", 60)
    teller = Teller()
    async with Hub().listening("episode:e") as page, Hub().listening("ask:q", "episode:e") as call:
        await past_the_first_gap(page)
        await past_the_first_gap(call)
        teller.tell([steps_hint("e", 1)])
        assert numbers(await heard(page)) == numbers(await heard(call)) == [1]
        teller.tell([steps_hint("e", 2)])
        teller.tell([hint("ask:q", events.WAKE, "-", "{}")])
        assert await heard(call) == "{}"


def test_oversized_frame_is_split_in_order(monkeypatch):
    monkeypatch.setattr(events, "FRAME_BYTES", 30)
    pending = Pending()
    for seq in range(1, 8):
        pending.add(events.STEPS, "e", step(seq))
    parts = [numbers(text) for text in pending.payload().texts]
    assert len(parts) > 1 and sum(parts, []) == [1, 2, 3, 4, 5, 6, 7]


def test_slow_listener_queue_is_bounded_then_gets_a_gap():
    listener = Listener()
    for number in range(QUEUE_FRAMES):
        listener.put(Payload(str(number)))
    assert taken(listener) == "0"
    listener.put(Payload("fits"))
    listener.put(Payload("one too many"))
    assert (taken(listener), taken(listener)) == (GAP_FRAME, None)


def test_large_frames_are_bounded_by_their_size():
    listener = Listener()
    for _ in range(5):
        listener.put(Payload("x" * (QUEUE_BYTES // 4)))
    assert (taken(listener), taken(listener)) == (GAP_FRAME, None)


class FullLine:
    """A socket's transport that takes frames until it is full."""

    def __init__(self):
        self.free, self.sent, self.stalls = True, [], 0

    def write(self, payload):
        if self.free:
            self.sent += payload.texts
        return self.free

    def stalled(self):
        self.stalls += 1


def test_frames_are_sent_directly_after_the_first_ones():
    line = FullLine()
    listener = SocketListener(line, line.stalled)
    listener.put(Payload("before"))
    assert (line.sent, taken(listener)) == ([], "before")
    listener.flowing()
    listener.put(Payload("after"))
    assert (line.sent, taken(listener)) == (["after"], None)


def test_a_stalled_socket_queues_in_order_and_wakes_one_task():
    line = FullLine()
    listener = SocketListener(line, line.stalled)
    listener.flowing()
    line.free = False
    listener.put(Payload("1"))
    line.free = True
    listener.put(Payload("2"))
    assert (line.sent, line.stalls) == ([], 1)
    assert [taken(listener), taken(listener), taken(listener)] == ["1", "2", None]


async def test_a_server_that_is_not_known_gets_its_frames_through_asgi():
    sent = []

    async def send(message):
        sent.append(message["text"])

    line, payload = SocketWriter(send), Payload("one", "two")
    assert not line.write(payload)
    await line.send(payload)
    assert sent == ["one", "two"]


@pytest.mark.parametrize("size", [1, 125, 126, 65535, 65536])
def test_a_prepared_frame_is_what_the_websocket_protocol_says(size):
    from websockets.frames import Frame, Opcode

    text = "x" * size
    assert Payload(text).plain == Frame(Opcode.TEXT, text.encode()).serialize(mask=False)


@pytest.mark.parametrize("size", [1, 2_000, 200_000])
def test_shared_compressed_frame_decodes_after_any_prefix(size):
    from websockets.extensions.permessage_deflate import PerMessageDeflate
    from websockets.frames import Frame, Opcode
    from websockets.streams import StreamReader

    text = json.dumps(list(range(size)))[:size]
    reader = StreamReader()
    reader.feed_data(Payload("x" * 5_000, text, text).packed)
    theirs = PerMessageDeflate(True, True, 15, 15)
    for expected in ("x" * 5_000, text, text):
        *_, frame = drive(Frame.parse(reader.read_exact, mask=False, extensions=[theirs]))
        assert (frame.opcode, bytes(frame.data).decode()) == (Opcode.TEXT, expected)


def drive(reading):
    """Everything is there already, so nothing is waited for."""
    while True:
        try:
            yield next(reading)
        except StopIteration as done:
            yield done.value
            return


class HandWound:
    """The event loop and its clock, as a lane sees them: time passes when the test says so or writing takes it."""

    def __init__(self):
        self.now, self._calls = 100.0, []

    def perf_counter(self):
        return self.now

    def get_running_loop(self):
        return self

    def call_later(self, wait, act, *args):
        self._calls.append((self.now + wait, act, args))

    def call_soon(self, act, *args):
        self.call_later(0, act, *args)

    def run(self, until):
        """What falls due until then, in its order."""
        while due := [call for call in self._calls if call[0] <= max(until, self.now)]:
            first = min(due, key=lambda call: call[0])
            self._calls.remove(first)
            self.now = max(self.now, first[0])
            first[1](*first[2])
        self.now = max(self.now, until)


class Paced:
    """A lane on a clock of its own, whose writing takes `heavy` seconds."""

    def __init__(self, monkeypatch):
        self.clock, self.left, self.heavy = HandWound(), [], 0.0
        monkeypatch.setattr("episodes.live.hub.time", self.clock)
        monkeypatch.setattr("episodes.live.hub.asyncio", self.clock)
        self.lane = Lane(0.02, self.deliver)

    def deliver(self, topic, payload):
        self.left.append((round(self.clock.now - 100, 6), payload.texts))
        self.clock.now += self.heavy

    def tell(self, *moments):
        """A hint at each of these moments, named after it, and then all the time that is needed."""
        for moment in moments:
            self.clock.run(100 + moment)
            self.lane.add("t", events.EACH, "-", str(moment))
        self.clock.run(200)
        return self.left


def test_hints_are_sent_first_immediately_then_batched(monkeypatch):
    told = Paced(monkeypatch).tell(0, 0.005, 0.012, 0.5)
    assert told == [(0, ("0",)), (0.02, ("0.005", "0.012")), (0.5, ("0.5",))]


@pytest.mark.parametrize(("writing", "pause"), [(0.001, 0.02), (0.015, 0.03), (0.05, 0.1), (0.2, 0.2), (0.06, 0.12)])
def test_writer_uses_at_most_half_of_the_loop_time(monkeypatch, writing, pause):
    paced = Paced(monkeypatch)
    paced.heavy = writing
    paced.tell(0, 0.0005)
    assert [moment for moment, _ in paced.left] == [0, pause]


async def test_hub_reconnects_after_a_cut_and_sends_gap(valkey):
    async with Hub().listening("episode:e") as listener:
        await past_the_first_gap(listener)
        valkey.client_kill_filter(_type="pubsub")
        assert await heard(listener) == GAP_FRAME
        valkey.publish(events.CHANNEL, steps_hint("e", 5))
        assert numbers(await heard(listener)) == [5]


async def test_unsent_events_are_followed_by_a_gap(valkey, monkeypatch):
    teller, away = Teller(), True

    class Broken:
        def publish(self, channel, text):
            if away:
                raise redis.ConnectionError("gone")
            return valkey.publish(channel, text)

    monkeypatch.setattr(events, "connection", Broken)
    async with Hub().listening("episode:e") as listener, Hub().listening("episode:other") as other:
        await past_the_first_gap(listener)
        await past_the_first_gap(other)
        teller.tell([steps_hint("e", 1)])
        await asyncio.to_thread(teller.flush, 0.3)
        away = False
        assert await heard(listener) == GAP_FRAME
        teller.tell([steps_hint("other", 1)])
        assert numbers(await heard(other)) == [1]


def test_full_publisher_queue_records_unsent_channels(monkeypatch):
    monkeypatch.setattr(events, "WAITING_BYTES", 40)
    teller = Teller()
    monkeypatch.setattr(teller, "_start", lambda: None)
    teller.tell([steps_hint("e", 1), steps_hint("f", 1)])
    batch = teller._next()
    assert batch == [hint("episode:f", events.GAP, "-", ""), steps_hint("e", 1)]
