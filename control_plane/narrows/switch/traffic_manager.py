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
OWN_ID = pb.ElectionId(high=ELECTION_ID.high, low=ELECTION_ID.low)

Answer = TypeVar("Answer", bound=Message)


class TrafficManagerClient:
    """The service's calls, on a channel that P4Runtime already uses."""

    def __init__(self, channel: grpc.aio.Channel, role: str = "") -> None:
        """Use an open channel, which stays the caller's, as the primary of a role."""
        self._channel = channel
        self._role = role

    async def configure(self, request: pb.ConfigureRequest) -> pb.ConfigureResponse:
        """Change settings of one queue, between two packets, as the primary controller that a P4Runtime session is."""
        asked = pb.ConfigureRequest(role=self._role, election_id=OWN_ID)
        asked.MergeFrom(request)
        return await self._call("Configure", asked, pb.ConfigureResponse)

    async def list(self, flow_drops: Sequence[pb.FlowDropsRequest] = ()) -> pb.ListResponse:
        """Settings, counters and depths of all queues, and the switch's clock; with it, drops by flow of some."""
        found = await self._call("List", pb.ListRequest(flow_drops=flow_drops), pb.ListResponse)
        return await self._whole(flow_drops, found)

    async def start_schedules(self, epoch_ns: int) -> pb.StartSchedulesResponse:
        """Let all schedules begin at a switch time that were given without one."""
        request = pb.StartSchedulesRequest(epoch_ns=epoch_ns, role=self._role, election_id=OWN_ID)
        return await self._call("StartSchedules", request, pb.StartSchedulesResponse)

    async def pause(self, at_ns: int | None) -> int:
        """Halt the switch at a switch time, and wait until it has; None: it continues. Returns its time."""
        return (await self._hold(pb.HoldRequest(at_ns=at_ns))).timestamp_ns

    async def pause_and_list(self, at_ns: int, flow_drops: Sequence[pb.FlowDropsRequest]) -> pb.ListResponse:
        """Halt the switch at a switch time, and what `list` returns then, by one call."""
        halted = await self._hold(pb.HoldRequest(at_ns=at_ns, list=pb.ListRequest(flow_drops=flow_drops)))
        return await self._whole(flow_drops, halted.list)

    async def flow_drops(self, port: int, queue: int, cause: pb.Cause = pb.TAIL) -> pb.FlowDropsResponse:
        """Packets of one queue by flow index, dropped or doubled by a cause; all, however many answers that takes."""
        return await self._rest(
            pb.FlowDropsRequest(port=port, queue=queue, cause=cause), pb.FlowDropsResponse(next_flow=0)
        )

    async def observe(self, request: pb.ObserveRequest) -> pb.ObserveResponse:
        """Have packets reported that a program does not report itself, as the primary controller."""
        asked = pb.ObserveRequest(role=self._role, election_id=OWN_ID)
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

    async def _hold(self, request: pb.HoldRequest) -> pb.HoldResponse:
        request.role = self._role
        request.election_id.CopyFrom(OWN_ID)
        return await self._call("Hold", request, pb.HoldResponse, timeout_s=None)

    async def _whole(self, asked: Sequence[pb.FlowDropsRequest], found: pb.ListResponse) -> pb.ListResponse:
        """An answer with all drops by flow, where there are more than one answer has."""
        for request, drops in zip(asked, found.flow_drops, strict=True):
            await self._rest(request, drops)
        return found

    async def _rest(self, asked: pb.FlowDropsRequest, found: pb.FlowDropsResponse) -> pb.FlowDropsResponse:
        """Drops by flow with all that follow those that were found."""
        request = pb.FlowDropsRequest()
        request.CopyFrom(asked)
        while found.HasField("next_flow"):
            request.first_flow = found.next_flow
            found.ClearField("next_flow")
            found.MergeFrom(await self._call("FlowDrops", request, pb.FlowDropsResponse))
        return found

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
