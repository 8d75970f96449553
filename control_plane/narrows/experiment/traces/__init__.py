# SPDX-License-Identifier: Apache-2.0
"""Readers of rate traces: one format a module, each from the text of a file to what it says, nothing repaired."""
