# SPDX-License-Identifier: Apache-2.0
"""The one place that knows targets."""

from __future__ import annotations

from targets.base import Target
from targets.bmv2 import Bmv2Target
from targets.shadowed import ShadowedTarget
from targets.soft import SoftTarget
from targets.tofino import TofinoModelTarget, TofinoTarget

TARGETS: dict[str, Target] = {
    target.name: target
    for target in (SoftTarget(), Bmv2Target(), TofinoModelTarget(), TofinoTarget(), ShadowedTarget())
}
