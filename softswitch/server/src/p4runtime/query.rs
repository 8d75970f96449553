//! Parts of a Read request, each of which looks at the forwarding state once.
// SPDX-License-Identifier: Apache-2.0
use narrows_pipeline::{Entry, EntryState, TableId};
use narrows_proto::p4::v1::{self as p4, entity::Entity};
use narrows_switch::unit::ProgramUnit;

use super::error::UpdateError;

/// Answers from the forwarding state.
pub type Look = Box<dyn FnOnce(&mut ProgramUnit) -> Result<Entities, UpdateError> + Send>;

/// Builds the answer from what was read, after packets continue.
pub type Entities = Box<dyn FnOnce() -> Vec<p4::Entity> + Send>;

/// Makes the answer of a table's entries.
pub type Answer = Box<dyn FnOnce(Vec<(Entry, EntryState)>) -> Result<Vec<p4::Entity>, UpdateError> + Send>;

/// Answers a part of the request.
pub enum Query {
    /// With one look at the forwarding state.
    Once(Look),
    /// With all entries of a table, which are fetched in parts of `read::ENTRIES_AT_ONCE`.
    Entries(TableId, Answer),
}

/// As an answer has it.
pub fn wrap(entity: Entity) -> p4::Entity {
    p4::Entity { entity: Some(entity) }
}

/// The object of that id, or all for 0.
pub fn select<'a, T>(
    all: &'a std::collections::BTreeMap<u32, T>,
    id: u32,
    kind: &str,
) -> Result<Vec<(u32, &'a T)>, UpdateError> {
    if id == 0 {
        return Ok(all.iter().map(|(id, object)| (*id, object)).collect());
    }
    let found = all.get(&id).ok_or_else(|| UpdateError::not_found(format!("there is no {kind} {id}")))?;
    Ok(vec![(id, found)])
}
