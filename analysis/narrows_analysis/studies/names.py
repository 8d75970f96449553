# SPDX-License-Identifier: Apache-2.0
"""Names of the studies; each is a module of this package."""

NAMES = ("claypool2019", "hock2017", "hurtig2018", "miyazawa2018", "zeynali2024", "ware2019")
