# SPDX-License-Identifier: Apache-2.0
"""Hosts of a run: namespaces, links, processes, and the record of what was made."""
