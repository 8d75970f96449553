# SPDX-License-Identifier: Apache-2.0
"""Two runs, or two sweeps, side by side: differences with confidence intervals and effect sizes."""
