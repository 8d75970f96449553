# SPDX-License-Identifier: Apache-2.0
"""What a run looks like while it goes on: read from the switch twice a second, shown in the terminal and on a page."""
