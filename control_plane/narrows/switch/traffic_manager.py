# SPDX-License-Identifier: Apache-2.0
"""Client of the softswitch's TrafficManager service (softswitch/proto/narrows/v1/traffic_manager.proto).

traffic_manager_pb2 is generated: ``python -m grpc_tools.protoc -I softswitch/proto --python_out=DIR --pyi_out=DIR
narrows/v1/traffic_manager.proto``, then copied here; a test fails when it is not what the .proto says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import grpc
from google.protobuf.message import Message

from narrows.errors import RunError
from narrows.switch import traffic_manager_pb2 as pb
from narrows.switch.p4runtime import ELECTION_ID

TIMEOUT_S = 10.0
SERVICE = "narrows.v1.TrafficManager"

Answer = TypeVar("Answer", bound=Message)


class TrafficManagerClient:
    """The service's calls, on a channel that P4Runtime already uses."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        """Use an open channel; it stays the caller's."""
        self._channel = channel

    async def configure(self, request: pb.ConfigureRequest) -> pb.ConfigureResponse:
        """Change settings of one queue, between two packets, as the primary controller that a P4Runtime session is."""
        asked = pb.ConfigureRequest(election_id=pb.ElectionId(high=ELECTION_ID.high, low=ELECTION_ID.low))
        asked.MergeFrom(request)
        return await self._call("Configure", asked, pb.ConfigureResponse)

    async def list(self) -> pb.ListResponse:
        """Settings, counters and depths of all queues, and the switch's clock."""
        return await self._call("List", pb.ListRequest(), pb.ListResponse)

    async def start_schedules(self, epoch_ns: int) -> pb.StartSchedulesResponse:
        """Let all schedules begin at a switch time that were given without one."""
        election_id = pb.ElectionId(high=ELECTION_ID.high, low=ELECTION_ID.low)
        request = pb.StartSchedulesRequest(epoch_ns=epoch_ns, election_id=election_id)
        return await self._call("StartSchedules", request, pb.StartSchedulesResponse)

    async def hold(self, at_ns: int | None) -> int:
        """Halt the switch at a switch time, and wait until it has; None: it continues. Returns its time."""
        election_id = pb.ElectionId(high=ELECTION_ID.high, low=ELECTION_ID.low)
        request = pb.HoldRequest(at_ns=at_ns, election_id=election_id)
        return (await self._call("Hold", request, pb.HoldResponse, timeout_s=None)).timestamp_ns

    async def flow_drops(self, port: int, queue: int, cause: pb.Cause = pb.TAIL) -> pb.FlowDropsResponse:
        """Packets of one queue by flow index, dropped or doubled by a cause; all, however many answers that takes."""
        found = pb.FlowDropsResponse()
        request = pb.FlowDropsRequest(port=port, queue=queue, cause=cause)
        while True:
            page = await self._call("FlowDrops", request, pb.FlowDropsResponse)
            found.flows.extend(page.flows)
            if not page.HasField("next_flow"):
                return found
            request.first_flow = page.next_flow

    async def observe(self, request: pb.ObserveRequest) -> pb.ObserveResponse:
        """Have packets reported that a program does not report itself, as the primary controller."""
        asked = pb.ObserveRequest(election_id=pb.ElectionId(high=ELECTION_ID.high, low=ELECTION_ID.low))
        asked.MergeFrom(request)
        return await self._call("Observe", asked, pb.ObserveResponse)

    async def observed_flows(self, skip: int = 0) -> Sequence[pb.ObservedFlow]:
        """All flows that `observe` has counted but those seen first, however many answers that takes."""
        found: list[pb.ObservedFlow] = []
        while True:
            request = pb.ObservedFlowsRequest(skip=skip + len(found))
            page = await self._call("ObservedFlows", request, pb.ObservedFlowsResponse)
            found += page.flows
            if not page.flows or skip + len(found) >= page.seen:
                return found

    async def port_stats(self) -> pb.PortStatsResponse:
        """Interface counters of all ports."""
        return await self._call("PortStats", pb.PortStatsRequest(), pb.PortStatsResponse)

    async def _call(
        self, method: str, request: Message, answer: type[Answer], timeout_s: float | None = TIMEOUT_S
    ) -> Answer:
        call = self._channel.unary_unary(
            f"/{SERVICE}/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=answer.FromString,
        )
        try:
            response: Answer = await call(request, timeout=timeout_s)
        except grpc.aio.AioRpcError as error:
            raise RunError(f"TrafficManager.{method}: {error.code().name}: {error.details()}") from error
        return response
