//! P4Runtime server.
// SPDX-License-Identifier: Apache-2.0
#[cfg(test)]
mod against_model;
mod apply;
mod arbitration;
mod change;
pub mod check;
mod control;
mod device_config;
mod devices;
mod digest;
mod entry;
mod error;
mod idle;
mod packet_io;
mod profile;
mod query;
mod read;
mod schema;
mod service;
mod stream;
#[cfg(test)]
mod test_programs;
mod trial;
pub mod value;
mod write;

pub use control::{to_its_end, unavailable, Control};
pub use devices::Devices;
pub use idle::watch_idle;
pub use packet_io::send_packet_ins;
pub use service::P4RuntimeService;
pub use stream::send_digests;
