# SPDX-License-Identifier: Apache-2.0
"""Tofino 1 and 2 over BF Runtime: plan every write, make it, read it back, take it back."""
