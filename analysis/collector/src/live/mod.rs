// SPDX-License-Identifier: Apache-2.0
//! What others see of reports while they come in. They observe ([`crate::telemetry::observer`]) in a thread of their own
//! between reception and storage, so that no frame waits for them before the batches that may wait are used up.

mod figures;
mod page;

use std::sync::mpsc::Sender;

pub use figures::{Figures, Units};
pub use page::{serve, Shared};

use crate::flow_keys::{FlowId, FlowKey};

/// What the reception gives those who watch.
#[derive(Clone)]
pub struct Live {
    /// Takes each new flow.
    pub announce: Sender<(FlowId, FlowKey)>,
    pub metrics: Shared,
}
