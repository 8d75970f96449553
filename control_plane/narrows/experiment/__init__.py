# SPDX-License-Identifier: Apache-2.0
"""The experiment as a user writes it: model, file, sweep, and the plan worked out from it. Touches no machine."""
