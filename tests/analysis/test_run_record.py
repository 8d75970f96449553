# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from typing import Any

import pytest
from narrows_formats.run_record import RunRecord
from narrows_formats.validation import problems
from pydantic import ValidationError

WRITTEN: dict[str, Any] = {
    "narrows_version": "0.1.0",
    "name": "demo",
    "status": "partial",
    "reason": "interrupted by SIGINT",
    "target_profile": {
        "name": "bmv2", "time_unit_s": 1e-6, "timestamp_bits": 48, "depth_unit": "packets", "depth_unit_bytes": None,
        "rate_unit": "packets/s", "rate_layer": "l2", "delay_line": False, "flow_drop_counters": False,
        "drop_records": None, "random_samples": None, "queue_reported": True,
        "depth_overhead_bytes": None, "empty_queue_delay": 0,
    },
    "links": [{
        "name": "bottleneck", "direction": "forward", "index": 0, "rate_bps": 100_000_000,
        "buffer_bytes": 500_000, "rtt_s": 0.04, "bdp_bytes": 500_000.0,
        "mtu_frame_bytes": 1514, "loss": 0.0, "ecn_threshold_bytes": None,
    }],
    "flows": [{"group": "bbr", "cca": "bbr", "src": "10.0.0.1", "dst": "10.0.0.2", "src_port": 10000, "start_s": 0}],
    "clock_origin_ns": -5,
    "drop_cross_check": {"bottleneck": {"holds": True}},
}  # fmt: skip


def test_what_is_written_is_what_was_given_down_to_the_kinds_of_numbers() -> None:
    assert json.dumps(RunRecord.model_validate(WRITTEN).as_json(), sort_keys=True) == json.dumps(
        WRITTEN, sort_keys=True
    )


def test_a_bdp_that_is_not_given_is_rate_times_rtt() -> None:
    link = {"rate_bps": 100_000_000, "rtt_s": 0.04, "mtu_frame_bytes": None}
    (found,) = RunRecord.model_validate({**WRITTEN, "links": [link]}).links
    assert (found.bdp_bytes, found.mtu_frame_bytes) == (500_000, 1514)
    assert RunRecord.model_validate({**WRITTEN, "links": [{"rate_bps": 1}]}).links[0].bdp_bytes is None


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"links": [{"rate_bps": 0}]}, "links.0.rate_bps: '0' is not more than 0; allowed: a number above 0"),
        ({"links": [{"rtt_s": True}]}, "links.0.rtt_s: 'True' is not a number of 0 or more; allowed: a number"),
        ({"links": [None]}, "links.0: nothing is of the wrong kind; allowed: a mapping"),
        ({"flows": 5}, "flows: '5' is of the wrong kind; allowed: a list"),
        (
            {"target_profile": {"name": "x", "time_unit_s": 1}},
            "target_profile.depth_unit: is missing; fields here",
        ),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError) as refused:
        RunRecord.model_validate({**WRITTEN, **change})
    (found,) = problems(refused.value, RunRecord)
    assert found.startswith(problem)
