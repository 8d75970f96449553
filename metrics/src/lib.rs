// SPDX-License-Identifier: Apache-2.0
//! Serves a program's metrics over HTTP in Prometheus' text format, in a separate thread.

mod address;
mod endpoint;
mod page;

pub use address::{Address, DEFAULT_ADDRESS};
pub use endpoint::Endpoint;
pub use page::{Labels, Page};
