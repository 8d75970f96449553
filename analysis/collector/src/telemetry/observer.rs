// SPDX-License-Identifier: Apache-2.0
//! Observers see the rows on their way to the disk.

use std::sync::mpsc::{Receiver, SyncSender};

use super::columns::Columns;

/// Receives every row, in sequence order.
pub trait Observer: Send {
    /// Rows that were received since the last call; none if a caller waits until all earlier ones are processed.
    fn observe(&mut self, columns: &Columns);
}

/// Shows each batch to the observers, then passes it on, until either side has ended.
pub fn observe_all(mut observers: Vec<Box<dyn Observer>>, from: &Receiver<Columns>, to: &SyncSender<Columns>) {
    for columns in from {
        for observer in &mut observers {
            observer.observe(&columns);
        }
        if to.send(columns).is_err() {
            return;
        }
    }
}
