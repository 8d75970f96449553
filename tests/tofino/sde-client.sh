#!/bin/sh
# Makes the SDE's BF Runtime client usable here, for the tests of this directory: `sde-client.sh OPEN-P4STUDIO DIRECTORY`,
# from a checkout of github.com/p4lang/open-p4studio, into a new directory. Then
#
#   PYTHONPATH=DIRECTORY:DIRECTORY/bfrt_grpc pytest tests/tofino
#
# Needs python3 with grpcio-tools and googleapis-common-protos (PYTHON names another one).
#
# SPDX-License-Identifier: Apache-2.0
set -eu
[ $# = 2 ] || { echo "usage: sde-client.sh OPEN-P4STUDIO DIRECTORY" >&2; exit 2; }
python=${PYTHON:-python3}
source=$1/pkgsrc/bf-drivers/src/bf_rt
mkdir -p "$2/bfrt_grpc"
cp "$source/bfruntime_grpc_client/python/client.py" "$source/bfruntime_grpc_client/python/info_parse.py" "$2/bfrt_grpc"
: >"$2/bfrt_grpc/__init__.py"
common=$("$python" -c 'from importlib.util import find_spec; print(find_spec("google.rpc").submodule_search_locations[0])')
"$python" -m grpc_tools.protoc -I "$source/proto" -I "$common/../.." --python_out="$2/bfrt_grpc" \
    --grpc_python_out="$2/bfrt_grpc" bfruntime.proto
