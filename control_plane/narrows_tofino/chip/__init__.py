# SPDX-License-Identifier: Apache-2.0
"""What a Tofino can do: its sizes, queue depths in cells, rates and bursts of its shapers."""
