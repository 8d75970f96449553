# SPDX-License-Identifier: Apache-2.0
"""From aggregated telemetry to summary.json and the time series, with the warnings a reader needs."""
