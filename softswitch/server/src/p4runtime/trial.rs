//! Updates of a program that is in no switch: what the server would answer.
// SPDX-License-Identifier: Apache-2.0
use std::sync::Arc;

use narrows_pipeline::{Pipeline, Program};
use narrows_proto::p4::v1 as p4;
use narrows_switch::unit::ProgramUnit;

use super::change::Decoded;
use super::digest::Digests;
use super::error::UpdateError;
use super::schema::Schema;
use super::write::decode_update;

/// The results of updates that are made one after the other, to a program without entries.
pub fn results(schema: &Schema, program: Program, updates: &[p4::Update]) -> Vec<Result<(), UpdateError>> {
    let mut digests = Digests::of(program.id);
    let mut unit = ProgramUnit::new(Pipeline::new(Arc::new(program), 0));
    let mut make = |update: &p4::Update| match decode_update(schema, update)? {
        Decoded::Change(change) => change.parts.into_iter().try_for_each(|part| part(&mut unit)),
        Decoded::Digest { id, config, kind } => match schema.digests.get(&id) {
            Some(digest) => digests.update(kind, id, digest, config),
            None => Err(UpdateError::not_found(format!("there is no digest {id}"))),
        },
    };
    updates.iter().map(&mut make).collect()
}

#[cfg(test)]
mod tests {
    use narrows_proto::p4::v1::{entity::Entity, update::Type};
    use tonic::Code;

    use super::*;
    use crate::p4runtime::device_config;
    use crate::p4runtime::test_programs::*;

    fn codes(config: &p4::ForwardingPipelineConfig, updates: &[p4::Update]) -> Vec<Code> {
        let program = Program::load(&device_config::program(&config.p4_device_config)).expect("loads");
        let schema = Schema::new(config.p4info.as_ref().expect("P4Info"), &program).expect("belongs to it");
        let codes = results(&schema, program, updates).into_iter();
        codes.map(|result| result.map_or_else(|error| error.code, |()| Code::Ok)).collect()
    }

    /// P4Runtime, Write: an INSERT of what is there is ALREADY_EXISTS, what is not there cannot be changed or deleted.
    #[test]
    fn each_update_is_of_what_those_before_it_have_left() {
        let updates = [
            entry(Type::Insert, 1, 1),
            entry(Type::Insert, 1, 2),
            entry(Type::Modify, 2, 1),
            entry(Type::Delete, 1, 1),
            entry(Type::Insert, 1, 2),
            group(Type::Insert, 5),
            group(Type::Insert, 6),
            cells(9),
            entry(Type::Unspecified, 3, 1),
        ];
        use Code::{AlreadyExists, InvalidArgument, NotFound, Ok as Done};
        let expected = [Done, AlreadyExists, NotFound, Done, Done, Done, AlreadyExists, Done, InvalidArgument];
        assert_eq!(codes(&with_table(), &updates), expected);
    }

    #[test]
    fn digests_are_configured_once() {
        let digest = |kind, digest_id| {
            update(kind, Entity::DigestEntry(p4::DigestEntry { digest_id, config: Some(Default::default()) }))
        };
        let updates = [digest(Type::Modify, DIGEST), digest(Type::Insert, DIGEST), digest(Type::Insert, DIGEST)];
        assert_eq!(codes(&config(), &updates), [Code::NotFound, Code::Ok, Code::AlreadyExists]);
        assert_eq!(codes(&config(), &[digest(Type::Insert, DIGEST + 1)]), [Code::NotFound]);
    }
}
