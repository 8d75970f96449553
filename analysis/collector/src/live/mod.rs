// SPDX-License-Identifier: Apache-2.0
//! Shows reports to other programs while they come in. Observers see rows ([`crate::telemetry::observer`]) in a separate
//! thread between reception and storage, so that frames do not wait for them until all batches that may wait are used up.
//! Only postcards are sent by the receiving thread itself, which has the original packet.

mod arrow;
mod figures;
mod page;
mod postcards;

use std::sync::mpsc::Sender;

pub use arrow::{ArrowFile, Listener};
pub use figures::{Figures, Units};
pub use page::{serve, Shared};
pub use postcards::Postcards;

use crate::flow_keys::{FlowId, FlowKey};
use crate::telemetry::observer::Observer;

/// What the receiving thread passes to its watchers.
#[derive(Default)]
pub struct Live {
    /// Receives each new flow.
    pub announce: Option<Sender<(FlowId, FlowKey)>>,
    pub postcards: Option<Postcards>,
    pub observers: Vec<Box<dyn Observer>>,
    /// Receives the counts of sequences.
    pub metrics: Option<Shared>,
}
