# SPDX-License-Identifier: Apache-2.0
"""Links between namespaces leave packets as they are, as another program sees it, or say what they cannot do."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from narrows.errors import RunError
from narrows.hosts.links import End, add_cable, namespace, run, set_offloads
from narrows.hosts.offloads import ALWAYS_OFF, OFFLOADS

NAMES = (*(offload.name for offload in OFFLOADS.values()), *ALWAYS_OFF)
pytestmark = pytest.mark.needs("root", "ip", "ethtool")


@pytest.fixture
def ends() -> Iterator[tuple[End, End]]:
    with namespace(f"one-{os.getpid()}") as one, namespace(f"other-{os.getpid()}") as other:
        yield End(one, "eth0"), End(other, "port1")


def as_ethtool_says(end: End) -> dict[str, str]:
    listing = run(["ip", "netns", "exec", end.namespace, "ethtool", "-k", end.interface])
    features = dict(line.strip().split(": ", 1) for line in listing.splitlines() if ": " in line)
    # Of its group this is the one that senders go by.
    features["tcp-segmentation-offload"] = features["tx-tcp-segmentation"]
    return {name: features[name].split()[0] for name in NAMES}


def test_a_cable_has_no_offloads(ends: tuple[End, End]) -> None:
    add_cable(*ends)
    for end in ends:
        assert as_ethtool_says(end) == dict.fromkeys(NAMES, "off")


@pytest.mark.parametrize("short", OFFLOADS)
def test_each_offload_is_turned_by_its_own_name(ends: tuple[End, End], short: str) -> None:
    add_cable(*ends)
    # Segmentation needs scatter-gather, and that needs checksums.
    on = {"tso": {"tso", "tx", "sg"}, "gso": {"gso", "tx", "sg"}, "sg": {"sg", "tx"}}.get(short, {short})
    found = set_offloads(ends[0], on)
    assert found == as_ethtool_says(ends[0])
    assert {name for name, value in found.items() if value == "on"} == {OFFLOADS[each].name for each in on}


def test_what_cannot_be_turned_off_is_named(ends: tuple[End, End]) -> None:
    with pytest.raises(RunError, match=f"{ends[0].namespace}: lo: tx-checksumming cannot be turned off"):
        set_offloads(End(ends[0].namespace, "lo"))


def test_an_interface_that_is_not_there_is_named(ends: tuple[End, End]) -> None:
    with pytest.raises(RunError, match=f"{ends[0].namespace}: eth7: tcp-segmentation-offload cannot be read: No such"):
        set_offloads(End(ends[0].namespace, "eth7"))
