# SPDX-License-Identifier: Apache-2.0
"""Publications, a module each: what each one says, as data; its experiments are in ``experiments/``, by its name."""
