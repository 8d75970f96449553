# SPDX-License-Identifier: Apache-2.0
"""BMv2's simple_switch_grpc as a target."""
