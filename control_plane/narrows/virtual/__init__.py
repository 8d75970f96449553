# SPDX-License-Identifier: Apache-2.0
"""Virtual time: the measuring part of a run inside User-Mode Linux, whose clock jumps from event to event."""
