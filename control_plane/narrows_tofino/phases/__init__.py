# SPDX-License-Identifier: Apache-2.0
"""The phases of a run on a switch, each of which has what the next one needs: opened, configured, live."""
