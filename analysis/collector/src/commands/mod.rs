// SPDX-License-Identifier: Apache-2.0
//! The subcommands of `narrows-collector`.

pub mod aggregate;
pub mod bench;
pub mod collect;
pub mod convert;
pub mod generate;
pub mod replay;
mod watch;
