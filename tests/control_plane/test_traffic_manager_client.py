# SPDX-License-Identifier: Apache-2.0
"""Answers of the traffic manager that come in several pages."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import grpc
from narrows.switch import traffic_manager_pb2 as pb
from narrows.switch.traffic_manager import TrafficManagerClient

AT_ONCE, FLOWS = 3, 8


def page(asked: pb.FlowDropsRequest) -> pb.FlowDropsResponse:
    """Flow n has lost n + 1 packets at each queue."""
    end = min(asked.first_flow + AT_ONCE, FLOWS)
    flows = [pb.FlowDrop(flow=flow, packets=flow + 1) for flow in range(asked.first_flow, end)]
    return pb.FlowDropsResponse(flows=flows, next_flow=end if end < FLOWS else None)


class Channel:
    """A traffic manager with pages of three flows."""

    def unary_unary(self, method: str, **_: Any) -> Callable[..., Awaitable[Any]]:
        async def call(request: Any, **_: Any) -> Any:
            match method.rpartition("/")[2]:
                case "FlowDrops":
                    return page(request)
                case "List":
                    return pb.ListResponse(flow_drops=map(page, request.flow_drops))
                case _:
                    listed = pb.ListResponse(flow_drops=map(page, request.list.flow_drops))
                    return pb.HoldResponse(timestamp_ns=request.at_ns, list=listed)

        return call


def test_drops_of_many_flows_are_all_there_however_they_are_asked_for() -> None:
    client = TrafficManagerClient(cast("grpc.aio.Channel", Channel()))
    asked = [pb.FlowDropsRequest(port=1), pb.FlowDropsRequest(port=2, first_flow=6)]
    whole, rest = [(flow, flow + 1) for flow in range(FLOWS)], [(6, 7), (7, 8)]

    def found(drops: pb.FlowDropsResponse) -> list[tuple[int, int]]:
        return [(one.flow, one.packets) for one in drops.flows]

    async def ask() -> None:
        assert found(await client.flow_drops(1, 0)) == whole
        for listed in (await client.list(asked), await client.pause_and_list(5, asked)):
            assert [found(drops) for drops in listed.flow_drops] == [whole, rest]
        assert await client.pause(5) == 5

    asyncio.run(ask())
