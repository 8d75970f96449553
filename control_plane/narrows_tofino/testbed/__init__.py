# SPDX-License-Identifier: Apache-2.0
"""The switch of a lab: its part of the inventory, what was measured of it, and the session with it."""
