# SPDX-License-Identifier: Apache-2.0
"""The switches an experiment can run on."""
