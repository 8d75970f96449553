//! The Narrows softswitch: runs a compiled P4 program behind a traffic manager with an exact byte clock.
// SPDX-License-Identifier: Apache-2.0
#![warn(missing_docs)]

mod earliest;
pub mod failure;
pub mod forwarding;
mod heap;
pub mod io;
pub mod p4runtime;
pub mod replay;
pub mod serve;
mod services;
pub mod switch;
pub mod tls;
pub mod tm;
pub mod tm_service;

pub use narrows_proto as proto;
