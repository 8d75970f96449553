# SPDX-License-Identifier: Apache-2.0
"""BF Runtime: the schema a switch serves, values by name, and two clients (the SDE's and ours) with one interface."""
