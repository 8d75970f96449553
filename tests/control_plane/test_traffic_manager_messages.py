# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import sys
from pathlib import Path

from google.protobuf import descriptor_pb2
from grpc_tools import protoc  # type: ignore[import-untyped]
from narrows.paths import REPOSITORY
from narrows.switch import traffic_manager_pb2


def test_generated_messages_are_what_the_proto_says(tmp_path: Path) -> None:
    out = tmp_path / "set.binpb"
    source = "narrows/v1/traffic_manager.proto"
    arguments = [sys.argv[0], f"-I{REPOSITORY / 'softswitch' / 'proto'}", f"--descriptor_set_out={out}", source]
    assert protoc.main(arguments) == 0
    (expected,) = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file
    committed = descriptor_pb2.FileDescriptorProto()
    traffic_manager_pb2.DESCRIPTOR.CopyToProto(committed)  # type: ignore[no-untyped-call]
    for message in expected.message_type:
        for field in message.field:
            field.ClearField("json_name")  # filled in by protoc in one of the two outputs only
    assert committed == expected
