# SPDX-License-Identifier: Apache-2.0
"""The claims of Ware et al. (2019) and of a later evaluation that are known without their texts."""

from __future__ import annotations

from narrows_studies.model import judged, not_tested, untestable

CLAIMS = (
    judged("abstract, and the model", "BBR's share follows from buffer and number of flows, within 5 %", "model/share"),
    judged("the model", "it does not depend on the number of CUBIC flows", "model/independent"),
    judged("abstract", "against Reno the median error is 8 %", "reno/share"),
    judged(
        "evaluation on FABRIC (2025), figures 2a and 2b",
        "against a single CUBIC flow the model holds for BBRv1, however many flows of it there are",
        "fabric/single",
        "fabric/measured",
    ),
    not_tested(
        "evaluation on FABRIC, abstract",
        "the model does not describe BBRv3",
        "`single-cubic`, which has its settings, has BBRv1 only",
        "`flows.bbr.cca: bbr3` in a copy of it",
    ),
    not_tested(
        "evaluation on FABRIC, figures 4 and 6",
        "at 100 Mbit/s and 10 ms a fluid model describes several BBR flows against several others, with limits",
        "the fluid model is not in this package",
        "its equations as a measure of each setting",
    ),
    untestable(
        "article, the in-flight cap",
        "under competition BBR is limited by its window and not by its rate",
        "an explanation; pages say of each setting what was in flight of the window",
    ),
)
