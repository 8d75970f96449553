# SPDX-License-Identifier: Apache-2.0
"""One experiment file from an empty machine to its results: set up, measure, take down, store."""
