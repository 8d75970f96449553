# SPDX-License-Identifier: Apache-2.0
"""A gRPC channel that has no threads of its own, for a guest whose clock must not advance during a call.

The gRPC library hands work to threads that look for it every now and then: a hand-over that one of them misses is found
by the clock, up to a second later. In virtual time, where all else sleeps then, the clock jumps there.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import grpc
from grpclib.client import Channel, Stream
from grpclib.const import Cardinality, Status
from grpclib.encoding.base import CodecBase, StatusDetailsCodecBase
from grpclib.exceptions import GRPCError, ProtocolError, StreamTerminatedError

Request = TypeVar("Request")
Answer = TypeVar("Answer")
Bytes = Stream[bytes, bytes]

# The trailer of an error's details.
DETAILS = "grpc-status-details-bin"
STATUS = {code.value[0]: code for code in grpc.StatusCode}


class Encoded(CodecBase):
    """Messages that are bytes already."""

    __content_subtype__ = "proto"

    def encode(self, message: Any, _: Any) -> bytes:
        """As it is."""
        return bytes(message)

    def decode(self, data: bytes, _: Any) -> bytes:
        """As it is."""
        return data


class Details(StatusDetailsCodecBase):
    """What a server adds to an error, as it comes; P4Runtime says there what is wrong with each update."""

    def encode(self, status: Status, message: str | None, details: Any) -> bytes:
        """As it is."""
        return bytes(details)

    def decode(self, status: Status, message: str | None, data: bytes) -> bytes:
        """As it is."""
        return data


class AsyncioChannel:
    """To a Unix socket that listens; what `narrows.switch` uses of `grpc.aio.Channel`, with the same errors."""

    def __init__(self, path: str) -> None:
        """Connected when it is first used."""
        self._channel = Channel(path=path, codec=Encoded(), status_details_codec=Details())

    def unary_unary(
        self,
        method: str,
        request_serializer: Callable[[Request], bytes],
        response_deserializer: Callable[[bytes], Answer],
        **_: Any,
    ) -> Callable[..., Awaitable[Answer]]:
        """A method with one answer."""

        async def call(request: Request, timeout: float | None = None) -> Answer:
            async with self._call(method, Cardinality.UNARY_UNARY, timeout) as stream:
                await stream.send_message(request_serializer(request), end=True)
                answer = await stream.recv_message()
            if answer is None:
                raise _failed(Status.INTERNAL, "no answer")
            return response_deserializer(answer)

        return call

    def unary_stream(
        self,
        method: str,
        request_serializer: Callable[[Request], bytes],
        response_deserializer: Callable[[bytes], Answer],
        **_: Any,
    ) -> Callable[..., AsyncIterator[Answer]]:
        """A method with many answers."""

        async def call(request: Request, timeout: float | None = None) -> AsyncIterator[Answer]:
            async with self._call(method, Cardinality.UNARY_STREAM, timeout) as stream:
                await stream.send_message(request_serializer(request), end=True)
                while (answer := await stream.recv_message()) is not None:
                    yield response_deserializer(answer)

        return call

    def stream_stream(
        self,
        method: str,
        request_serializer: Callable[[Any], bytes],
        response_deserializer: Callable[[bytes], Any],
        **_: Any,
    ) -> Callable[..., Exchange]:
        """A method with many requests and answers."""

        def call(**_: Any) -> Exchange:
            opened = self._call(method, Cardinality.STREAM_STREAM, None)
            return Exchange(opened.__aenter__, request_serializer, response_deserializer)

        return call

    async def close(self, _: float | None = None) -> None:
        """End the connection, and with it all that is under way."""
        self._channel.close()

    @asynccontextmanager
    async def _call(self, method: str, cardinality: Cardinality, timeout_s: float | None) -> AsyncIterator[Bytes]:
        opened: Bytes = self._channel.request(method, cardinality, bytes, bytes, timeout=timeout_s)
        try:
            async with opened as stream:
                yield stream
        except GRPCError as error:
            raise _failed(error.status, error.message or "", error.details) from error
        except TimeoutError as error:
            raise _failed(Status.DEADLINE_EXCEEDED, "no answer in time") from error
        except (OSError, ProtocolError, StreamTerminatedError) as error:
            raise _failed(Status.UNAVAILABLE, str(error)) from error


class Exchange:
    """The requests and answers of one call, until the channel is closed."""

    def __init__(
        self,
        begin: Callable[[], Awaitable[Bytes]],
        request_serializer: Callable[[Any], bytes],
        response_deserializer: Callable[[bytes], Any],
    ) -> None:
        """``begin`` opens it, with the first request."""
        self._begin = begin
        self._serialize, self._deserialize = request_serializer, response_deserializer
        self._stream: Bytes | None = None

    async def write(self, request: Any) -> None:
        """Send a request."""
        await (await self._begun()).send_message(self._serialize(request))

    async def read(self) -> Any:
        """The next answer; None if there will be none any more."""
        try:
            answer = await (await self._begun()).recv_message()
        except (GRPCError, OSError, ProtocolError, StreamTerminatedError):
            return None
        return None if answer is None else self._deserialize(answer)

    async def _begun(self) -> Bytes:
        if self._stream is None:
            self._stream = await self._begin()
        return self._stream

    def cancel(self) -> None:
        """The channel, which has no other use then, ends it."""


def _failed(status: Status, message: str, details: bytes | None = None) -> grpc.aio.AioRpcError:
    trailer = grpc.aio.Metadata() if details is None else grpc.aio.Metadata((DETAILS, details))
    return grpc.aio.AioRpcError(STATUS[status.value], grpc.aio.Metadata(), trailer, message, None)
