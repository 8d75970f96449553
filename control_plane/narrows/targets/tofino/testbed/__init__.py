# SPDX-License-Identifier: Apache-2.0
"""The lab: its inventory, its machines over SSH, tunnels and clocks."""
