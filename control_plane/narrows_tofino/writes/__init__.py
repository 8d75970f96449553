# SPDX-License-Identifier: Apache-2.0
"""Writes to the switch as they are planned, one module a subject."""
