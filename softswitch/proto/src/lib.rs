// SPDX-License-Identifier: Apache-2.0
//! gRPC messages and services, generated from the .proto files: a crate of its own, since it is off the packet path and
//! is compiled with less optimisation, beside the others.
#![allow(clippy::all, clippy::unwrap_used)]

tonic::include_proto!("proto");
