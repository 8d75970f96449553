# SPDX-License-Identifier: Apache-2.0
"""The claims of Miyazawa et al. (2018)."""

from __future__ import annotations

from narrows_studies.model import judged, not_tested, untestable

CLAIMS = (
    judged("2; figure 1", "with 16,384 packets unfair and converging phases repeat", "cycle/cycles"),
    not_tested(
        "2; figures 1 and 3",
        "one phase turns into the other suddenly",
        "how long the change takes is not measured",
        "the time from a Jain's index of 0.8 to one of 0.95",
    ),
    judged("2; figure 3", "with 65,536 packets the shares are severely unfair at first", "divergence/converge"),
    judged("2; figure 3", "and converge to equal ones", "divergence/converge"),
    not_tested(
        "2; figure 2",
        "BBR's window begins to grow when CUBIC's no longer does",
        "windows are sampled, but the order of two windows' changes is not measured",
        "the time between the end of CUBIC's growth and the begin of BBR's, from the sockets' samples",
    ),
    untestable(
        "2; figure 2",
        "a BBR flow cannot grow while another one grows and fills the queue, which makes the change sudden",
        "an explanation, not an observation",
    ),
    judged(
        "2; figure 2",
        "with 16,384 packets the queue becomes full, packets are lost, and CUBIC's window and the queue fall",
        "cycle/full",
    ),
    untestable("2", "that is why the phases repeat", "an explanation, not an observation"),
    judged(
        "2; figure 4", "with 65,536 packets the queue never becomes full, and nothing is lost", "divergence/never-full"
    ),
    judged(
        "2; figure 4",
        "not even with both windows at their limit, so that the flows converge for good",
        "divergence/never-full",
        "divergence/converge",
    ),
)
