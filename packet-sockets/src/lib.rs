// SPDX-License-Identifier: Apache-2.0
//! The system calls about packet sockets and mapped memory that switch and collector both need, and no others.

mod memory;
mod socket;

pub use memory::Mapping;
pub use socket::{be_promiscuous, bind, check, get, interface_index, open, owned, set};
