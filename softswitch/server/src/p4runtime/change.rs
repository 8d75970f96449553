//! What updates of a Write request become: changes of the forwarding state.
// SPDX-License-Identifier: Apache-2.0
use narrows_pipeline::{KeyMatch, TableId};
use narrows_proto::p4::v1::{self as p4, update::Type};
use narrows_switch::unit::ProgramUnit;

use super::error::UpdateError;

/// What is done to the forwarding state, between two packets.
pub type Operation = Box<dyn FnOnce(&mut ProgramUnit) -> Result<(), UpdateError> + Send>;

/// Looks at the forwarding state before an update; what it returns makes it so again.
pub type Before = Box<dyn FnOnce(&mut ProgramUnit) -> Result<Operation, UpdateError> + Send>;

/// Which entry of which table.
pub type EntryKey = (TableId, Vec<KeyMatch>, i32);

/// The key under which what comes with a table's default action is kept: no entry has it.
pub fn default_key(table: TableId) -> EntryKey {
    (table, vec![], 0)
}

/// What a controller wants back with an entry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cookie {
    pub controller_metadata: u64,
    pub metadata: Vec<u8>,
    /// After how long without a packet its controller wants to know; 0: never.
    pub idle_timeout_ns: i64,
}

/// A change of forwarding state.
pub struct Change {
    pub before: Before,
    pub parts: Vec<Operation>,
    /// It is of cells, which are enough work that packets are processed between the parts, and before other updates.
    pub of_cells: bool,
    /// Of a table entry: what the controller stores with it (`None`: the entry goes).
    pub cookie: Option<(EntryKey, Option<Cookie>)>,
}

impl Change {
    pub fn new(before: Before, operation: Operation) -> Self {
        Change { before, parts: vec![operation], of_cells: false, cookie: None }
    }

    /// Of a table entry, whose key and what is to be stored with it `cookie` has.
    pub fn of_entry((key, cookie): (EntryKey, Option<Cookie>), operation: Operation) -> Self {
        Change { cookie: Some((key.clone(), cookie)), ..Change::new(entry_before(key), operation) }
    }
}

pub fn entry_before((table, key, priority): EntryKey) -> Before {
    Box::new(move |unit| {
        let kept = unit.pipeline.table_keep(table, &key, priority)?;
        Ok(Box::new(move |unit| Ok(unit.pipeline.table_put_back(table, &key, priority, kept.as_ref())?)))
    })
}

/// A decoded update.
pub enum Decoded {
    /// Changes forwarding state.
    Change(Change),
    /// Configures a digest (`None`: stops it).
    Digest { id: u32, config: Option<p4::digest_entry::Config>, kind: Type },
}
