# SPDX-License-Identifier: Apache-2.0
"""What every target shares: entries of the P4 program, P4Runtime, the softswitch's traffic manager, counters read."""
