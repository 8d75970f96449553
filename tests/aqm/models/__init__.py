# SPDX-License-Identifier: Apache-2.0
"""Queue management as its RFCs describe it, written apart from the switch's."""
