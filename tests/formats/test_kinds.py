# SPDX-License-Identifier: Apache-2.0
"""Kinds of flows: their records, and the tables that are made of them."""

from __future__ import annotations

from typing import Any

import pytest
from narrows_formats.connection_record import ConnectionRecord
from narrows_formats.kinds import kinds_of_flows, record_of
from pydantic import ValidationError

COMMON = {"src_port": 1, "dst_port": 2, "started_s": 1.0, "ended_s": 11.0, "ending": "time_over", "bytes_sent": 0}
ASKED = [
    # The third is not complete.
    {"user": 0, "due_s": due_s, "sent_s": due_s, "first_byte_s": due_s + 0.1, "done_s": done_s, "bytes": 1,
     "src_port": 1, "bitrate_bps": bps, "buffer_s": 2.0}
    for due_s, done_s, bps in ((2.0, 2.5, 1e6), (4.0, 4.75, 3e6), (6.0, None, 3e6))
]  # fmt: skip
DELAYS = {"min": 0.01, "mean": 0.02, "p50": 0.02, "p95": 0.03, "p99": 0.04, "max": 0.05}
RECEIVED = {"packets": 97, "bytes": 1, "duplicates": 2, "reordered": 3, "ce_marked": 4, "unread": 0, "delay_s": DELAYS}
SENT = {"packets_sent": 100, "packets_unsent": 0, "last_sent_s": 10.0, "received": RECEIVED}
# Of each kind, a record's own fields, and the row that follows from them by the columns' definitions.
CASES: dict[str, tuple[dict[str, Any], list[Any]]] = {
    "udp": (SENT, [100, 97, 5, 3, 2, 4, 0.02, 0.04, None, None]),
    "probe": (SENT, [100, 97, 5, 3, 2, 4, None, None, 0.02, 0.04]),
    "requests": ({"responses": ASKED}, [3, 2, 0.1, 0.625, 0.5, 0.75, 0.75]),
    "video": (
        {"responses": ASKED, "video": {"segment_s": 2.0, "playing_s": 3.0, "stalls": [[5.0, 7.0]]}},
        [2, 2e6, 1, 1, 2.0, 0.25, 2.0],
    ),
    # 1 Mbit/s for 2 s and 2 Mbit/s for 6 s, until the last datagram.
    "media": (
        {
            **SENT,
            "reports": [
                {"time_s": at_s, "rtt_s": 0.1, "signal_s": signal_s, "rate_bps": bps}
                for at_s, signal_s, bps in ((2.0, 0.01, 1e6), (4.0, 0.03, 2e6))
            ],
        },
        [2, 1.75e6, 0.02],
    ),
    "onoff": ({"bursts": [{"begun_s": 1.0, "ended_s": 3.0, "bytes": 500_000}]}, [1, 2.0, 2e6]),
}


@pytest.mark.parametrize("name", CASES)
def test_a_kinds_table_is_of_its_own_part_of_the_summary(name: str) -> None:
    own, row = CASES[name]
    kind = next(one for one in kinds_of_flows() if name in one.names)
    found = record_of(name).model_validate({**COMMON, "kind": name, **own}).own_summary()
    part: Any = found["figures" if kind.figures else kind.id]
    columns = kind.columns or [figure.column for figure in kind.figures]
    assert [column.of(part) for column in columns] == pytest.approx(row)


def test_each_kind_has_a_case() -> None:
    assert {name for kind in kinds_of_flows() for name in kind.names} == set(CASES)


@pytest.mark.parametrize("name", sorted(set(CASES) - {"udp", "probe"}))
def test_a_record_without_its_kinds_own_is_refused(name: str) -> None:
    with pytest.raises(ValidationError):
        record_of(name).model_validate({**COMMON, "kind": name})


def test_other_kinds_have_what_every_connection_has() -> None:
    assert record_of("tcp") is record_of("of a newer version") is record_of(None) is ConnectionRecord
