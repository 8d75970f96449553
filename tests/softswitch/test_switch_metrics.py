# SPDX-License-Identifier: Apache-2.0
"""What the softswitch serves to Prometheus, against what was sent."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from harness import Network, running
from narrows.run.collector_figures import figures_at
from narrows.switch import traffic_manager_pb2 as pb
from prometheus_client.parser import text_string_to_metric_families
from test_serve import FRAME, resolve, send


def scrape(path: Path) -> dict[tuple[str, tuple[str, ...]], float]:
    """Samples by name and values of labels."""
    families = text_string_to_metric_families(figures_at(path))
    return {(one.name, tuple(one.labels.values())): one.value for family in families for one in family.samples}


@pytest.mark.needs("narrows-softswitch")
def test_a_full_queue(network: Network, tmp_path: Path) -> None:
    """800 bit/s: the first frame is in service for ten seconds, seven wait, of twenty."""
    metrics = tmp_path / "metrics"

    async def scenario() -> None:
        async with running(network, tmp_path, "--metrics", f"unix:{metrics}") as switch:
            await switch.program()
            resolve(network)
            await switch.tm.configure(pb.ConfigureRequest(port=2, queue=0, rate_bps=800, limit_packets=7))
            send(network, "sender", 20)
            await asyncio.sleep(0.3)
            found = scrape(metrics)
            expected = {
                "rate_bits_per_second": 800, "limit_packets": 7, "depth_packets": 7, "depth_bytes": 7 * FRAME,
                "peak_depth_bytes": 7 * FRAME, "enqueued_packets_total": 8, "enqueued_bytes_total": 8 * FRAME,
                "dequeued_packets_total": 1, "dequeued_bytes_total": FRAME, "duplicated_packets_total": 0,
            }  # fmt: skip
            assert {name: found[f"narrows_queue_{name}", ("2", "0")] for name in expected} == expected
            name = "narrows_queue_drops_packets_total"
            causes = {labels[2]: value for (sample, labels), value in found.items()
                      if sample == name and labels[:2] == ("2", "0")}  # fmt: skip
            assert causes.pop("tail") == 12 and not any(causes.values())
            assert found["narrows_port_receive_packets_total", ("1", "p1")] == 20
            assert found["narrows_port_receive_bytes_total", ("1", "p1")] == 20 * FRAME
            assert found["narrows_pool_used_packets", ()] == 8
            assert found["narrows_switch_discards_total", ("egress",)] == 0

    asyncio.run(scenario())
