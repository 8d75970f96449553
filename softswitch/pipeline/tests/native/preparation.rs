// SPDX-License-Identifier: Apache-2.0
//! Announcements of packets, and what can come between them and the packets.

use narrows_pipeline::{Entry, Pipeline, TableId};

use crate::common::entries;
use proptest::prelude::*;

/// Announcements of a packet, and what happens before it comes in. None of it may change any result.
#[derive(Debug, Clone, Copy)]
pub enum Preparation {
    Nothing,
    AsItComes,
    OtherPort,
    OtherTime,
    /// The packet had other bytes then.
    OtherBytes,
    /// Other packets, too; some of them come in before, or never.
    Others(u8),
    /// An entry is removed from each table in between, and put back after ingress.
    TableChange,
    /// A packet leaves in between.
    Departure,
}

pub fn preparation() -> impl Strategy<Value = Preparation> {
    use Preparation::{AsItComes, Departure, Nothing, OtherBytes, OtherPort, OtherTime, Others, TableChange};
    prop_oneof![
        4 => Just(AsItComes),
        4 => prop::sample::select(vec![Nothing, OtherPort, OtherTime, OtherBytes, TableChange, Departure]),
        2 => (1u8..7).prop_map(Others),
    ]
}

/// Takes an entry out of each table.
pub fn take_entries(pipeline: &mut Pipeline) -> Vec<(TableId, Entry)> {
    let tables: Vec<TableId> = pipeline.program().tables().iter().map(|t| t.id).collect();
    let mut taken = Vec::new();
    for table in tables {
        let Some((entry, _)) = entries(pipeline, table).into_iter().next() else {
            continue;
        };
        if pipeline.table_delete(table, &entry.key, entry.priority).is_ok() {
            taken.push((table, entry));
        }
    }
    taken
}
