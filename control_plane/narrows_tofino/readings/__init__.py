# SPDX-License-Identifier: Apache-2.0
"""What the switch counts: registers, counters, and drops outside the bottleneck's queue."""
