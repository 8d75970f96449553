# SPDX-License-Identifier: Apache-2.0
"""Messages of our gRPC services, generated from softswitch/proto and committed.

Made anew by ``python -m grpc_tools.protoc -I softswitch/proto --python_out=control_plane --pyi_out=control_plane
narrows/v1/traffic_manager.proto``; a test fails when they are not what the .proto says.
"""
