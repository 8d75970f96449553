# SPDX-License-Identifier: Apache-2.0
"""Carrying out planned writes on the switch, with a log from which each can be undone."""
