# SPDX-License-Identifier: Apache-2.0
"""A run in formats that other programs read: CSV, pcapng, Arrow, INT."""
