//! The Narrows softswitch as a server: the switch on Linux interfaces, controlled by P4Runtime and TrafficManager.
// SPDX-License-Identifier: Apache-2.0
#![warn(missing_docs)]

mod listener;
mod metrics;
pub mod p4runtime;
mod port_options;
pub mod serve;
mod services;
mod telemetry_messages;
mod tls;
mod tm_messages;
mod tm_service;
