# SPDX-License-Identifier: Apache-2.0
"""The AQMs (RFC 7567), a module for each: as users write it, and what it needs of a switch."""
