"""The hub and the only publisher, with the real Valkey: coalescing, order, bounds, `gap`, and coming back."""

from __future__ import annotations

import asyncio
import json
import time

import pytest
import redis

from episodes import events
from episodes.events import Teller, hint
from episodes.hub import GAP_FRAME, QUEUE_BYTES, QUEUE_FRAMES, Hub, Lane, Listener, Pending, SocketListener
from episodes.wire import Line, Payload

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


def test_a_frame_that_grows_too_large_is_parted_and_keeps_its_order(monkeypatch):
    monkeypatch.setattr(events, "FRAME_BYTES", 30)
    pending = Pending()
    for seq in range(1, 8):
        pending.add(events.STEPS, "e", step(seq))
    parts = [numbers(text) for text in pending.payload().texts]
    assert len(parts) > 1 and sum(parts, []) == [1, 2, 3, 4, 5, 6, 7]


def test_a_listener_that_does_not_read_holds_a_bounded_queue_and_then_a_gap():
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


def test_frames_go_straight_to_a_socket_once_the_first_ones_have_left():
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

    line, payload = Line(send), Payload("one", "two")
    assert not line.write(payload)
    await line.send(payload)
    assert sent == ["one", "two"]


@pytest.mark.parametrize("size", [1, 125, 126, 65535, 65536])
def test_a_prepared_frame_is_what_the_websocket_protocol_says(size):
    from websockets.frames import Frame, Opcode

    text = "x" * size
    assert Payload(text).plain == Frame(Opcode.TEXT, text.encode()).serialize(mask=False)


@pytest.mark.parametrize("size", [1, 2_000, 200_000])
def test_a_shared_compressed_frame_reads_the_same_whatever_came_before(size):
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


async def test_frames_leave_at_once_after_a_quiet_time_and_later_while_writing_takes_long():
    left, heavy = [], 0.0

    def deliver(topic, payload):
        left.append((time.perf_counter(), payload.texts))
        time.sleep(heavy)

    lane = Lane(0.02, deliver)

    async def tell(number):
        lane.add("t", events.EACH, "-", str(number))
        await until(lambda: left and left[-1][1][-1] == str(number))

    lane.add("t", events.EACH, "-", "0")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert [texts for _, texts in left] == [("0",)]
    heavy = 0.05
    await tell(1)
    await tell(2)
    # less than the pauses themselves: this process may lose its core between an act and its time stamp
    assert left[1][0] - left[0][0] >= 0.005 and left[2][0] - left[1][0] >= 0.07


async def until(what):
    async with asyncio.timeout(WAIT_S):
        while not what():
            await asyncio.sleep(0.001)


async def test_a_hub_comes_back_after_its_connection_was_cut_and_says_gap(valkey):
    async with Hub().listening("episode:e") as listener:
        await past_the_first_gap(listener)
        valkey.client_kill_filter(_type="pubsub")
        assert await heard(listener) == GAP_FRAME
        valkey.publish(events.CHANNEL, steps_hint("e", 5))
        assert numbers(await heard(listener)) == [5]


async def test_what_could_not_be_told_is_followed_by_a_gap_for_its_readers(valkey, monkeypatch):
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


def test_a_publisher_whose_queue_is_full_remembers_whom_it_told_nothing(monkeypatch):
    monkeypatch.setattr(events, "WAITING_BYTES", 40)
    teller = Teller()
    monkeypatch.setattr(teller, "_start", lambda: None)
    teller.tell([steps_hint("e", 1), steps_hint("f", 1)])
    batch = teller._next()
    assert batch == [hint("episode:f", events.GAP, "-", ""), steps_hint("e", 1)]
