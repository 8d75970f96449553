// SPDX-License-Identifier: Apache-2.0
//! What the control plane says and sees: tables, entries, counters, registers, digests.

/// A table of the loaded program. Get one from [`crate::Program::table_id`]; valid for that program only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableId(pub u32);

/// A counter array (indirect or direct) of the loaded program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CounterId(pub u32);

/// A register array of the loaded program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RegisterId(pub u32);

/// A meter array of the loaded program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MeterId(pub u32);

/// How a key field matches. P4's `optional` is `Ternary` in BMv2 JSON; entries may use either form there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MatchKind {
    Exact,
    Lpm,
    Ternary,
    Range,
}

/// One key field of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyInfo {
    /// As P4Info names it.
    pub name: String,
    pub kind: MatchKind,
    /// Width in bits, at most 128.
    pub width: u32,
}

/// One action and its parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActionInfo {
    pub name: String,
    /// Name and width in bits of each parameter.
    pub params: Vec<(String, u32)>,
}

/// What a program says about one of its tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableInfo {
    pub id: TableId,
    /// Fully qualified, as in P4Info: `ingress.cross_connect`.
    pub name: String,
    pub keys: Vec<KeyInfo>,
    pub actions: Vec<ActionInfo>,
    pub size: usize,
    /// Entries have a priority (some key field is ternary or range).
    pub has_priority: bool,
    /// Entries have a direct counter.
    pub direct_counter: bool,
    /// Entries have a direct meter.
    pub direct_meter: bool,
    /// When a packet last found an entry is known.
    pub idle_timeout: bool,
    pub const_default: bool,
    pub const_entries: bool,
}

impl TableInfo {
    /// True if what a packet finds here leaves something behind.
    #[must_use]
    pub fn notes_hits(&self) -> bool {
        self.direct_counter || self.direct_meter || self.idle_timeout
    }
}

/// One field of an entry's key. Values are right-aligned, in host order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyMatch {
    Exact(u128),
    /// Bits behind the prefix must be 0.
    Lpm {
        value: u128,
        prefix_len: u32,
    },
    /// Bits outside the mask must be 0; a mask of 0 matches everything.
    Ternary {
        value: u128,
        mask: u128,
    },
    /// Both ends included.
    Range {
        low: u128,
        high: u128,
    },
}

/// An action with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActionCall {
    /// Fully qualified, as in P4Info.
    pub action: String,
    pub params: Vec<u128>,
}

/// A table entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// One for each key field, in the table's order.
    pub key: Vec<KeyMatch>,
    /// The entry with the greatest priority wins, as in P4Runtime. 0 in tables without priorities. Among equal
    /// priorities the entry inserted first wins.
    pub priority: i32,
    pub action: ActionCall,
}

/// Some entries of a table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EntriesPart {
    /// Each with its order of insertion.
    pub entries: Vec<(u32, Entry, EntryState)>,
    /// Where to continue; `None`: that was all.
    pub next: Option<usize>,
}

/// What packets, and a controller's configuration of its meter, have left at an entry.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EntryState {
    /// Zero if the table has no direct counter.
    pub counter: CounterValue,
    /// Of the direct meter, if there is one and it is configured.
    pub meter: Option<MeterConfig>,
    /// Where its action is.
    pub target: Target,
    /// When a packet last found the entry, or it was inserted, of tables with idle timeouts.
    pub hit_ns: u64,
}

/// Packets and bytes of a counter cell. Bytes are those received (ingress length), as in BMv2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CounterValue {
    pub packets: u64,
    pub bytes: u64,
}

/// A counter array's shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CounterInfo {
    pub id: CounterId,
    pub name: String,
    /// 0 for a direct counter: its cells are the table's entries.
    pub size: usize,
    /// The table of a direct counter.
    pub table: Option<TableId>,
}

/// A register array's shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegisterInfo {
    pub id: RegisterId,
    pub name: String,
    pub size: usize,
    pub width: u32,
}

/// A meter array's shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeterInfo {
    pub id: MeterId,
    pub name: String,
    /// 0 for a direct meter: its cells are the table's entries.
    pub size: usize,
    /// The table of a direct meter.
    pub table: Option<TableId>,
    /// Tokens are bytes, else packets.
    pub bytes: bool,
}

/// A parser value set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueSetInfo {
    pub name: String,
    /// Members that it holds at most.
    pub size: usize,
    /// Width in bits of each field that a member has, in the order of the select; none if no state uses the set.
    pub widths: Vec<u32>,
}

impl ValueSetInfo {
    /// A member as parsers compare it: each field in whole bytes, the last one lowest. `None`: it has other fields.
    #[must_use]
    pub fn packed(&self, fields: &[u64]) -> Option<u64> {
        let fits = |(value, width): (&u64, &u32)| *width >= 64 || value >> width == 0;
        let same = fields.len() == self.widths.len() && fields.iter().zip(&self.widths).all(fits);
        let join =
            |joined: u64, (value, width): (&u64, &u32)| joined.checked_shl(bytes_of(*width) * 8).unwrap_or(0) | value;
        same.then(|| fields.iter().zip(&self.widths).fold(0, join))
    }

    /// The fields of a member.
    #[must_use]
    pub fn fields(&self, packed: u64) -> Vec<u64> {
        let mut rest = packed;
        let mut fields = Vec::with_capacity(self.widths.len());
        for &width in self.widths.iter().rev() {
            fields.push(rest & crate::bits::ones(width));
            rest = rest.checked_shr(bytes_of(width) * 8).unwrap_or(0);
        }
        fields.reverse();
        fields
    }
}

fn bytes_of(width: u32) -> u32 {
    width.div_ceil(8)
}

/// An action profile: actions that entries of tables share. With a selector entries can name groups of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileInfo {
    pub name: String,
    /// Members that it holds at most; with a selector, also what all its groups have together.
    pub size: usize,
    pub selector: bool,
    /// The tables that it implements.
    pub tables: Vec<ProfileTable>,
}

/// A table whose actions are in a profile is two tables: what its key finds is a [`Reference`], whose number the other one finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProfileTable {
    pub entries: TableId,
    /// Has the actions, by the numbers of the profile's members.
    pub members: TableId,
}

/// What an entry of such a table has in place of an action: words of the parameters of [`REFERENCE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reference {
    /// Of a member, or of a group: not what controllers call it, and never 0.
    pub number: u32,
    pub group: bool,
    /// What controllers call it; 0 for a set of actions that came with the entry.
    pub id: u32,
}

/// Name of the only action of such a table: no P4 program can have it.
pub const REFERENCE: &str = "(reference)";

impl Reference {
    /// The parameters that carry it.
    #[must_use]
    pub fn action() -> ActionInfo {
        let params = [("number", 32), ("group", 1), ("id", 32)];
        let params = params.map(|(name, width)| (name.to_owned(), width)).into();
        ActionInfo { name: REFERENCE.to_owned(), params }
    }

    /// As an entry has it.
    #[must_use]
    pub fn call(self) -> ActionCall {
        let params = [self.number, self.group.into(), self.id].map(u128::from).into();
        ActionCall { action: REFERENCE.to_owned(), params }
    }

    /// From the first words of an entry's parameters.
    #[must_use]
    pub fn of_words(words: &[u64]) -> Option<Self> {
        match *words {
            [number, group, id, ..] if number > 0 => {
                Some(Self { number: number as u32, group: group != 0, id: id as u32 })
            }
            _ => None,
        }
    }
}

/// A group of members of an action profile.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GroupConfig {
    /// Id and weight of each member.
    pub members: Vec<(u32, u32)>,
    /// What its controller said of its greatest size.
    pub max_size: u32,
    /// What it takes of the profile's size: the sum of weights, or the number of members.
    pub takes: u64,
}

/// Actions of which a hash chooses one for each packet, that came with an entry.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ActionSet {
    /// Each with its weight.
    pub actions: Vec<(ActionCall, u32)>,
    /// As [`GroupConfig::takes`].
    pub takes: u64,
    /// What its controller wants to read back with it.
    pub note: (i32, i32),
}

/// What an entry does to a packet.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Target {
    /// The action that it has.
    #[default]
    Action,
    /// What the member, or the group, of its table's profile with this id does.
    Member(u32),
    Group(u32),
    Set(ActionSet),
}

/// What a cell of a meter is set to: rates in tokens a second, bursts in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeterConfig {
    /// RFC 2698.
    TwoRates { cir: u64, cburst: u64, pir: u64, pburst: u64 },
    /// RFC 2697.
    OneRate { cir: u64, cburst: u64, eburst: u64 },
}

/// A digest of the program (`learn_lists` in the JSON).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DigestInfo {
    /// The number that [`DigestRecord::list`] carries.
    pub list: u32,
    pub name: String,
    /// Width in bits of each member, in order.
    pub widths: Vec<u32>,
}

/// One record that the program sent up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DigestRecord {
    /// Of which program: [`crate::Program::id`].
    pub program: u64,
    /// Which digest: [`DigestInfo::list`].
    pub list: u32,
    pub values: Vec<u128>,
}
