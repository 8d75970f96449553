# SPDX-License-Identifier: Apache-2.0
"""Narrows: a programmable switch as the bottleneck link of a congestion-control experiment."""

from importlib.metadata import version

__version__ = version("narrows")
