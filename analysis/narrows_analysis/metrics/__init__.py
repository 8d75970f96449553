# SPDX-License-Identifier: Apache-2.0
"""Metrics of congestion-control experiments as small pure functions, one module a topic; docs/metrics.md lists them."""
