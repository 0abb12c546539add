"""Every block of IANA's special-purpose registries is refused from its first address to its last, nothing beside it."""

from __future__ import annotations

import random
import re
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import pytest

from notices import outbound
from notices.address_registry import GLOBAL_UNICAST, IPV4, IPV6, MULTICAST, SOURCES, UPDATED, special_purpose

BLOCKS = [*IPV4.items(), *IPV6.items()]
NAMED_IN_THE_ATTACK = [
    *("fec0::1", "::127.0.0.1", "::ffff:0:127.0.0.1", "192.0.0.8", "192.88.99.1", "3fff::1", "5f00::1"),
]
INNER = ["127.0.0.1", "10.0.0.1", "169.254.169.254", "192.168.1.1", "8.8.8.8"]


def refused(address):
    try:
        outbound.refuse_private(str(address))
    except outbound.AddressRefused as why:
        return str(why)
    return ""


def carrying(inner):
    """Every form of IPv6 that carries an IPv4 address in a place of its own."""
    number = int(IPv4Address(inner))
    forms = {
        "mapped (RFC 4291)": 0xFFFF << 32 | number,
        "compatible (RFC 4291)": number,
        "translated (RFC 2765)": 0xFFFF << 48 | number,
        "NAT64 (RFC 6052)": 0x64FF9B << 96 | number,
        "local NAT64 (RFC 8215)": 0x64FF9B0001 << 80 | number,
        "6to4 (RFC 3056)": 0x2002 << 112 | number << 80 | 1,
        "Teredo server (RFC 4380)": 0x20010000 << 96 | number << 64,
        "Teredo client (RFC 4380)": 0x20010000 << 96 | number ^ 0xFFFFFFFF,
        "ISATAP (RFC 5214)": 0x2400CAFE << 96 | 0x5EFE << 32 | number,
        "ISATAP of a unique address": 0x2400CAFE << 96 | 0x2005EFE << 32 | number,
        "ISATAP of a link": 0xFE80 << 112 | 0x5EFE << 32 | number,
    }
    return [(name, str(IPv6Address(form))) for name, form in forms.items()]


@pytest.mark.parametrize(("block", "name"), BLOCKS)
def test_the_first_and_last_address_of_a_block_are_refused(block, name):
    network = ip_network(block)
    for address in (network[0], network[network.num_addresses // 2], network[-1]):
        assert refused(address)
    narrower = [other for other, _ in BLOCKS if other != block and ip_network(other)[0] == network[0]]
    assert name in refused(network[0]) or narrower, "the reason names the block"


@pytest.mark.parametrize(("block", "name"), BLOCKS)
def test_address_block_neighbors_are_allowed(block, name):
    """A row that is too wide would take public addresses with it."""
    network = ip_network(block)
    for number in (int(network[0]) - 1, int(network[-1]) + 1):
        if not 0 <= number < 2**network.max_prefixlen:
            continue
        neighbor = type(network[0])(number)
        others = [ip_network(other) for other, _ in BLOCKS if other != block]
        elsewhere = any(other.version == neighbor.version and neighbor in other for other in others)
        if neighbor.version == 4:
            elsewhere = elsewhere or neighbor in MULTICAST
        else:
            elsewhere = elsewhere or neighbor not in GLOBAL_UNICAST
        assert bool(refused(neighbor)) == elsewhere, neighbor


def test_the_table_has_the_rows_of_the_registries():
    """25 records each; one of IPv4 names two blocks."""
    assert (len(IPV4), len(IPV6)) == (26, 25) and all(ip_network(block) for block, _ in BLOCKS)
    assert all(one.startswith("https://www.iana.org/") for one in SOURCES) and re.fullmatch(r"\d{4}-\d\d-\d\d", UPDATED)


@pytest.mark.parametrize("address", NAMED_IN_THE_ATTACK)
def test_addresses_that_an_attacker_reached_are_refused(address):
    assert refused(address)


@pytest.mark.parametrize("inner", INNER)
def test_no_form_of_ipv6_carries_an_ipv4_address_along(inner):
    assert [name for name, address in carrying(inner) if not refused(address)] == []


@pytest.mark.parametrize("address", ["224.0.0.1", "239.255.255.255", "ff02::1", "fec0::", "feff::", "4000::1"])
def test_what_other_registries_set_aside_is_refused(address):
    assert refused(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "1.1.1.1", "192.0.1.1", "2606:4700:4700::1111", "2a00:1450:4001::200e"])
def test_ordinary_public_addresses_are_not_refused(address):
    assert special_purpose(ip_address(address)) == "" and refused(address) == ""


def test_what_python_calls_private_is_refused():
    """Both ask the same registries; ours must never be the more generous."""
    dice = random.Random(17)
    numbers = [IPv4Address(dice.getrandbits(32)) for _ in range(5000)]
    numbers += [IPv6Address(dice.getrandbits(128)) for _ in range(5000)]
    assert [one for one in numbers if (not one.is_global or one.is_multicast) and not refused(one)] == []


def test_a_zone_does_not_hide_an_address():
    assert refused("fe80::1%eth0") and refused("fec0::1%1")
