# SPDX-License-Identifier: Apache-2.0
"""The one place that knows targets."""

from __future__ import annotations

from targets.base import Target
from targets.bmv2 import Bmv2Target
from targets.soft import SoftTarget

TARGETS: dict[str, Target] = {target.name: target for target in (SoftTarget(), Bmv2Target())}

_NO_ADAPTER = "the suite speaks P4Runtime, and Tofino's SDE BF Runtime only; see ptf-tests/README.md"
UNAVAILABLE = {"tofino-model": _NO_ADAPTER, "tofino": _NO_ADAPTER}
