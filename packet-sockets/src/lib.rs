// SPDX-License-Identifier: Apache-2.0
//! The system calls for packet sockets and mapped memory that both switch and collector need, and no others.

mod memory;
mod socket;

pub use memory::Mapping;
pub use socket::{be_promiscuous, bind, check, get, interface_index, open, owned, set};
