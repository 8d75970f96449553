# SPDX-License-Identifier: Apache-2.0
"""Shows a run while it is under way: read from the switch twice a second, in the terminal and on a page."""
