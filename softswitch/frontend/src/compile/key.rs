// SPDX-License-Identifier: Apache-2.0
//! Where a table finds the fields of its key.

use narrows_program::control::{KeyInfo, MatchKind};
use narrows_program::field::{Field, Place};
use narrows_program::table::{KeyPart, Source};

use super::Result;
use crate::error::LoadError;

/// A key field of a table.
pub(super) fn key_part(key: &KeyInfo, field: Field, mask: Option<u128>, place: &str) -> Result<KeyPart> {
    if key.kind == MatchKind::Range && key.width > 64 {
        let what = format!("the range key field {}, wider than 64 bits", key.name);
        return Err(LoadError::unsupported(what, place));
    }
    if key.width > 128 {
        let what = format!("the key field {} of {} bits (128 are)", key.name, key.width);
        return Err(LoadError::unsupported(what, place));
    }
    let source = match field.place {
        Place::Slot(slot) => Source::Slot(slot),
        Place::Valid(header) => Source::Valid(header),
        Place::Header { header, bit } => {
            let byte = (bit / 8) as u16;
            let end = bit % 8 + field.width;
            if end <= 64 {
                Source::Header { header, byte, shift: (64 - end) as u8 }
            } else if end <= 128 {
                Source::HeaderWide { header, byte, shift: (128 - end) as u8 }
            } else {
                let what = "a key field of more than 120 bits that does not start at a byte";
                return Err(LoadError::unsupported(what, place));
            }
        }
    };
    Ok(KeyPart { kind: key.kind, source, width: key.width, mask })
}
