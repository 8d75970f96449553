// SPDX-License-Identifier: Apache-2.0
//! Match-action tables: what entries are, and how they are found.

mod convert;
mod entries;
mod key;
mod key_map;
mod lookup;
mod prefixes;
mod state;

pub use convert::words as parameter_words;
pub use entries::KeptEntry;
pub use key_map::NONE;
pub use lookup::DIRECT_BITS;
pub use prefixes::Magnitudes;
pub use state::TableState;
