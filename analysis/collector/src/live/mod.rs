// SPDX-License-Identifier: Apache-2.0
//! What others see of reports while they come in. They observe rows ([`crate::telemetry::observer`]) in a thread of their
//! own between reception and storage, so that no frame waits for them before the batches that may wait are used up. Only
//! postcards are sent by the reception itself, which has the original packet.

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

/// What reception gives its watchers.
#[derive(Default)]
pub struct Live {
    /// Takes each new flow.
    pub announce: Option<Sender<(FlowId, FlowKey)>>,
    pub postcards: Option<Postcards>,
    pub observers: Vec<Box<dyn Observer>>,
    /// Is given the counts of sequences.
    pub metrics: Option<Shared>,
}
