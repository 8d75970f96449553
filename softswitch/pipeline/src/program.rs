// SPDX-License-Identifier: Apache-2.0
//! A loaded program.

use crate::control::{CounterId, CounterInfo, DigestInfo, RegisterId, RegisterInfo, TableId, TableInfo};
use crate::error::LoadError;

/// A compiled program: immutable, shared by pipelines.
#[derive(Debug)]
pub struct Program {
    pub(crate) tables: Vec<TableInfo>,
    pub(crate) counters: Vec<CounterInfo>,
    pub(crate) registers: Vec<RegisterInfo>,
    pub(crate) digests: Vec<DigestInfo>,
}

impl Program {
    /// Compiles BMv2 JSON.
    ///
    /// # Errors
    /// Whatever the program needs and this engine lacks is refused here, by name.
    pub fn load(json: &[u8]) -> Result<Self, LoadError> {
        todo!("{}", json.len())
    }

    /// All tables that the control plane can see (not those the compiler made for plain statements).
    #[must_use]
    pub fn tables(&self) -> &[TableInfo] {
        &self.tables
    }

    /// The table with this fully qualified name.
    #[must_use]
    pub fn table_id(&self, name: &str) -> Option<TableId> {
        self.tables.iter().find(|t| t.name == name).map(|t| t.id)
    }

    /// All counter arrays.
    #[must_use]
    pub fn counters(&self) -> &[CounterInfo] {
        &self.counters
    }

    /// The counter array with this fully qualified name.
    #[must_use]
    pub fn counter_id(&self, name: &str) -> Option<CounterId> {
        self.counters.iter().find(|c| c.name == name).map(|c| c.id)
    }

    /// All register arrays.
    #[must_use]
    pub fn registers(&self) -> &[RegisterInfo] {
        &self.registers
    }

    /// The register array with this fully qualified name.
    #[must_use]
    pub fn register_id(&self, name: &str) -> Option<RegisterId> {
        self.registers.iter().find(|r| r.name == name).map(|r| r.id)
    }

    /// All digests.
    #[must_use]
    pub fn digests(&self) -> &[DigestInfo] {
        &self.digests
    }

    /// True if the program can send packets to multicast groups.
    #[must_use]
    pub fn uses_multicast(&self) -> bool {
        todo!()
    }

    /// Bytes in front of each frame that headers added by the program need.
    #[must_use]
    pub fn headroom(&self) -> usize {
        todo!()
    }
}
