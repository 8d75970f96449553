# SPDX-License-Identifier: Apache-2.0
"""The channel without threads gives the answers and the errors that gRPC's own gives, from gRPC's own server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from narrows.switch.asyncio_channel import AsyncioChannel

LARGE = 3 << 20  # several times what HTTP/2 lets through without an acknowledgement


class Service(grpc.GenericRpcHandler):  # type: ignore[type-arg]
    """Methods by their names."""

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        async def reverse(request: bytes, context: Any) -> bytes:
            if request == b"refuse":
                context.set_trailing_metadata((("grpc-status-details-bin", b"\0why"),))
                await context.abort(grpc.StatusCode.PERMISSION_DENIED, "not the primary: äöü")
            if request == b"wait":
                await asyncio.sleep(60)
            return request[::-1]

        async def count(request: bytes, context: Any) -> AsyncIterator[bytes]:
            for number in range(int(request)):
                yield str(number).encode()
            if int(request) == 2:
                await context.abort(grpc.StatusCode.ABORTED, "no more")

        async def echo(requests: AsyncIterator[bytes], _: Any) -> AsyncIterator[bytes]:
            async for request in requests:
                yield request
                if request == b"last":
                    return

        return {
            "/s/Reverse": grpc.unary_unary_rpc_method_handler(reverse),
            "/s/Count": grpc.unary_stream_rpc_method_handler(count),
            "/s/Echo": grpc.stream_stream_rpc_method_handler(echo),
        }.get(details.method)


async def _conversation(path: Path) -> None:
    server = grpc.aio.server(options=[("grpc.max_receive_message_length", -1)])
    server.add_generic_rpc_handlers((Service(),))
    server.add_insecure_port(f"unix:{path}")
    await server.start()
    channel = AsyncioChannel(str(path))
    coders = {"request_serializer": bytes, "response_deserializer": bytes}
    reverse = channel.unary_unary("/s/Reverse", **coders)
    count = channel.unary_stream("/s/Count", **coders)
    try:
        assert await reverse(b"abc", timeout=10) == b"cba"
        assert await reverse(b"") == b""
        large = bytes(range(256)) * (LARGE // 256)
        assert await reverse(large, timeout=60) == large[::-1]
        assert [one async for one in count(b"3")] == [b"0", b"1", b"2"]
        found = []
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            async for one in count(b"2", timeout=10):
                found.append(one)  # noqa: PERF401
        assert (found, refused.value.code(), refused.value.details()) == (
            [b"0", b"1"], grpc.StatusCode.ABORTED, "no more",
        )  # fmt: skip
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await reverse(b"refuse", timeout=10)
        assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
        assert refused.value.details() == "not the primary: äöü"
        trailer: Any = refused.value.trailing_metadata()
        assert [value for _, value in trailer] == [b"\0why"]
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await reverse(b"wait", timeout=0.2)
        assert refused.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await channel.unary_unary("/s/None", **coders)(b"", timeout=10)
        assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED
        exchange = channel.stream_stream("/s/Echo", **coders)(wait_for_ready=True)
        for request in (b"first", b"last"):
            await exchange.write(request)
            assert await exchange.read() == request
        assert await exchange.read() is None
    finally:
        await channel.close()
        await server.stop(None)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await AsyncioChannel(str(path.with_name("none"))).unary_unary("/s/Reverse", **coders)(b"", timeout=10)
    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE


def test_answers_and_errors_are_those_of_grpc(tmp_path: Path) -> None:
    asyncio.run(_conversation(tmp_path / "socket"))
