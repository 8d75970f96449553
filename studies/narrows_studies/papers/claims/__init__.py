# SPDX-License-Identifier: Apache-2.0
"""Every claim of a publication in the order of its text, one module each: which rules judge it, or why none does."""
