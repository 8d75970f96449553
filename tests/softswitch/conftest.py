# SPDX-License-Identifier: Apache-2.0
"""Namespaces for the tests that run a softswitch on real interfaces."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from harness import Network


@pytest.fixture
def network() -> Iterator[Network]:
    """A namespace for each host and for the switch; gone afterwards."""
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    network = Network()
    try:
        network.up()
        yield network
    finally:
        network.down()
