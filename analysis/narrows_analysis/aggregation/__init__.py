# SPDX-License-Identifier: Apache-2.0
"""From report files to tables of sums, extremes and distributions, in bounded memory."""
