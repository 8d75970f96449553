# SPDX-License-Identifier: Apache-2.0
"""Names of the studies: ours, each a module of this package, and those that other distributions add."""

from narrows_formats import plugins

NAMES = ("claypool2019", "hock2017", "hurtig2018", "miyazawa2018", "zeynali2024", "ware2019")
OFFERS = plugins.offers(plugins.STUDIES, {name: f"narrows_analysis.studies.{name}:STUDY" for name in NAMES})
