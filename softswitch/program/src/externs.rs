// SPDX-License-Identifier: Apache-2.0
//! Operations of the architecture that instructions call by name.
//!
//! What is described here is all that analyses, interpreter and native code know of one: what it does is in the interpreter's
//! `externs.rs`, which native code calls as well, and how programs write it in the front end's. Operations on the packet path of
//! nearly every program (registers, counters, hashes) are instructions of their own instead, for speed.

/// An operation. The instruction that calls it names an object (by number), a slot that it reads, and one that it writes or leaves
/// as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Extern {
    /// Passes the packet through a cell of a meter: reads its index, writes the color (RFC 2697 and RFC 2698: 0 green, 1 yellow, 2
    /// red); beyond the array, leaves the color as it is.
    Meter,
    /// Passes the packet through the direct meter of the entry that the object, a table, found last: writes the color.
    DirectMeter,
    /// Looks a value up in a parser value set: writes 1 if it is a member, else 0.
    ValueSet,
    /// Chooses a member of a group of the object, an action profile: reads a hash, and writes the member's number where the group's
    /// was; 0, which none has, if the group has no members.
    Select,
    /// An assertion of the program, the object, does not hold.
    Assertion,
    /// The packet goes through ingress once more: at ingress as it came in (resubmit), at egress as it leaves (recirculate). The
    /// object is the list of fields that it keeps.
    SendAgain,
}

impl Extern {
    /// By their numbers, `extern as u8`.
    pub const ALL: [Extern; 6] =
        [Extern::Meter, Extern::DirectMeter, Extern::ValueSet, Extern::Select, Extern::Assertion, Extern::SendAgain];
}
