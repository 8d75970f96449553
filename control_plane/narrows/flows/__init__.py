# SPDX-License-Identifier: Apache-2.0
"""Kinds of flows: what a group of each says in an experiment file, and the payload that a plan has of it."""
