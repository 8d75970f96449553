# SPDX-License-Identifier: Apache-2.0
"""All studies by name."""

from __future__ import annotations

from narrows_analysis.studies import claypool2019, hock2017, hurtig2018, miyazawa2018, ware2019, zeynali2024
from narrows_analysis.studies.model import Study

STUDIES: dict[str, Study] = {
    module.STUDY.name: module.STUDY
    for module in (claypool2019, hock2017, hurtig2018, miyazawa2018, zeynali2024, ware2019)
}
