# SPDX-License-Identifier: Apache-2.0
"""Metrics of congestion-control experiments as small pure functions, a module for each topic: docs/metrics.md."""
