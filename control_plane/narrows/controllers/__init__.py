# SPDX-License-Identifier: Apache-2.0
"""Congestion controls in Python: classes that a driver calls at each step. docs/controllers.md shows how."""

from __future__ import annotations

from narrows.controllers.aimd import Aimd
from narrows.controllers.base import Controller, Decision, drive
from narrows.controllers.copa import Copa
from narrows.controllers.delay import DelayTarget

__all__ = ["Aimd", "Controller", "Copa", "Decision", "DelayTarget", "drive"]
