# SPDX-License-Identifier: Apache-2.0
"""Publications, one module each, with their claims as data; the experiments are in ``experiments/``, under its name."""
