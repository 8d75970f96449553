# SPDX-License-Identifier: Apache-2.0
"""What Narrows writes and reads: names of files and columns, units, target profiles, where its native programs are.

Imports nothing else of ours.
"""
