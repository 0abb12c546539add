"""Where a POST of ours goes, and where it does not."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from urllib.parse import urlsplit

import pytest

from notices import outbound


@pytest.fixture
def names(monkeypatch):
    """A name server that says something else each time; what it was asked is kept."""
    asked_for, answers = [], []

    async def getaddrinfo(self, host, port, **more):
        asked_for.append(host)
        ips = answers.pop(0)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, port)) for ip in ips]

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", getaddrinfo)
    return asked_for, answers


@pytest.mark.parametrize(
    "ips",
    [
        ["127.0.0.1"],
        ["10.1.2.3"],
        ["169.254.169.254"],
        ["100.64.0.1"],
        ["8.8.8.8", "192.168.0.1"],
        ["::ffff:127.0.0.1"],
        ["8.8.8.8", "5f00::1"],
        ["2002:7f00:1::1"],
    ],
)
def test_a_name_that_leads_to_a_private_address_is_not_gone_to(ips, names):
    names[1].append(ips)
    with pytest.raises(outbound.AddressRefused, match="private address") as refused:
        outbound.post("https://hooks.example.org/", b"{}", {})
    assert not any(ip in str(refused.value) for ip in ips), "a member would read the names of the inner network"


@pytest.mark.parametrize("host", ["2130706433", "0x7f.1", "localhost"])
def test_other_spellings_of_this_machine_are_not_gone_to(host):
    with pytest.raises((outbound.AddressRefused, outbound.Unreached)):
        outbound.post(f"https://{host}:1/", b"{}", {})


def test_a_name_that_no_server_can_know_is_said_not_thrown():
    with pytest.raises(outbound.Unreached, match="cannot be resolved"):
        outbound.post(f"https://{'a' * 70}.example.org/", b"{}", {})


def test_host_is_resolved_once_and_checked_address_is_used(there, names):
    asked_for, answers = names
    answers += [["127.0.0.1"], ["203.0.113.9"]]
    port = urlsplit(there.url).port
    assert outbound.post(f"http://hooks.example.org:{port}/x", b"{}", {}).status == 201
    assert asked_for == ["hooks.example.org"] and there.posted[0].headers["host"] == f"hooks.example.org:{port}"


def test_a_receiver_that_drips_is_left_in_time(private, monkeypatch):
    monkeypatch.setattr(outbound, "TOTAL_S", 0.3)
    left = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip():
            line, _ = server.accept()
            with line:
                for letter in b"HTTP/1.1 200 OK\r\nX-Slow: " + b"a" * 400:
                    try:
                        line.send(bytes([letter]))
                    except OSError:
                        left.append(letter)
                        return
                    time.sleep(0.05)

        thread = threading.Thread(target=drip)
        thread.start()
        with pytest.raises(outbound.Unreached, match="No response within"):
            outbound.post(f"http://127.0.0.1:{server.getsockname()[1]}/", b"{}", {})
        thread.join()
    assert left, "it was listened to until it had no more to say"
