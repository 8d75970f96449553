// SPDX-License-Identifier: Apache-2.0
//! What the control plane does to a pipeline's state.

use narrows_interpreter::cells::RegisterPlace;
use narrows_interpreter::meters::Cell;
use narrows_interpreter::table::{KeptEntry, TableState};
use narrows_interpreter::ControlError;
use narrows_program::bits::ones;
use narrows_program::cells::words_of;
use narrows_program::control::{
    ActionCall, CounterId, CounterValue, EntriesPart, Entry, KeyMatch, MeterConfig, MeterId, RegisterId, TableId,
    ValueSetInfo,
};
use narrows_program::table::TableCode;

use crate::Pipeline;

type Result<T> = std::result::Result<T, ControlError>;

impl Pipeline {
    fn table(&self, table: TableId) -> Result<(&TableCode, &TableState)> {
        let index = table.0 as usize;
        let found = self.program.tables.get(index).zip(self.machine.tables.get(index));
        found.ok_or_else(|| ControlError::NotFound { kind: "table with id", name: table.0.to_string() })
    }

    fn table_mut(&mut self, table: TableId) -> Result<(&TableCode, &mut TableState)> {
        let machine = self.machine.change();
        let index = table.0 as usize;
        let found = self.program.tables.get(index).zip(machine.tables.get_mut(index));
        found.ok_or_else(|| ControlError::NotFound { kind: "table with id", name: table.0.to_string() })
    }

    /// Says what time it is, for entries that are inserted. Packets do so by themselves.
    pub fn pass_time(&mut self, now_ns: u64) {
        let machine = self.machine.change();
        machine.now_ns = machine.now_ns.max(now_ns);
    }

    /// The entry with this key and priority with all that belongs to it; `None` if there is none.
    ///
    /// # Errors
    /// A key that no entry of the table can have.
    pub fn table_keep(&self, table: TableId, key: &[KeyMatch], priority: i32) -> Result<Option<KeptEntry>> {
        let (code, state) = self.table(table)?;
        let mut kept = state.keep(code, key, priority)?;
        if let Some(kept) = &mut kept {
            kept.state.target = self.target(table, &kept.entry.action);
        }
        Ok(kept)
    }

    /// Makes the entry with this key and priority what [`Pipeline::table_keep`] has found.
    ///
    /// # Errors
    /// Other entries took its place.
    pub fn table_put_back(
        &mut self,
        table: TableId,
        key: &[KeyMatch],
        priority: i32,
        kept: Option<&KeptEntry>,
    ) -> Result<()> {
        let mut kept = kept.cloned();
        if let (Some(kept), Some(profile)) = (&mut kept, self.profile_of(table)) {
            // Its member, group or set may be there again only, with another number.
            kept.entry.action = self.table_action(profile, &kept.state.target, u64::MAX)?;
        }
        let (code, state) = self.table_mut(table)?;
        state.put_back(code, key, priority, kept.as_ref())
    }

    /// When a packet last found an entry, or it was inserted, of tables with idle timeouts.
    ///
    /// # Errors
    /// No such entry.
    pub fn entry_hit_ns(&self, table: TableId, key: &[KeyMatch], priority: i32) -> Result<u64> {
        let (code, state) = self.table(table)?;
        state.hit_ns(code, key, priority)
    }

    /// Adds an entry, at the time of the last packet.
    ///
    /// # Errors
    /// Unknown action, key or parameters that do not fit, duplicate, table full, constant entries.
    pub fn table_insert(&mut self, table: TableId, entry: &Entry) -> Result<()> {
        let now_ns = self.machine.now_ns;
        let (code, state) = self.table_mut(table)?;
        state.insert(code, entry, now_ns)
    }

    /// Replaces the action of the entry with this key and priority; its direct counter stays.
    ///
    /// # Errors
    /// As for insertion; no such entry.
    pub fn table_modify(&mut self, table: TableId, entry: &Entry) -> Result<()> {
        let (code, state) = self.table_mut(table)?;
        state.modify(code, entry)
    }

    /// Removes the entry with this key and priority.
    ///
    /// # Errors
    /// No such entry; constant entries.
    pub fn table_delete(&mut self, table: TableId, key: &[KeyMatch], priority: i32) -> Result<()> {
        let (code, state) = self.table_mut(table)?;
        state.delete(code, key, priority)
    }

    /// Some entries of a table: those in its places from `place` on, `count` places at most, with their order of insertion, and
    /// the place to continue from (`None`: that was all). So a large table can be read a part at a time.
    ///
    /// # Errors
    /// A table id of another program.
    pub fn table_entries_from(&self, table: TableId, place: usize, count: usize) -> Result<EntriesPart> {
        let (code, state) = self.table(table)?;
        let mut part = state.entries_from(code, place, count);
        if !self.program.profiles.is_empty() {
            for (_, entry, state) in &mut part.entries {
                state.target = self.target(table, &entry.action);
            }
        }
        Ok(part)
    }

    /// The default action (`NoAction` without parameters if the program has none).
    ///
    /// # Errors
    /// A table id of another program.
    pub fn table_default(&self, table: TableId) -> Result<ActionCall> {
        let (code, state) = self.table(table)?;
        Ok(state.default_call(code))
    }

    /// Sets the default action, or the program's own again with `None`.
    ///
    /// # Errors
    /// Unknown action, parameters that do not fit, constant default action.
    pub fn table_set_default(&mut self, table: TableId, action: Option<&ActionCall>) -> Result<()> {
        let (code, state) = self.table_mut(table)?;
        state.set_default(code, action)
    }

    /// Sets the direct counter of an entry.
    ///
    /// # Errors
    /// No such entry; no direct counter.
    pub fn direct_counter_write(
        &mut self,
        table: TableId,
        key: &[KeyMatch],
        priority: i32,
        value: CounterValue,
    ) -> Result<()> {
        let (code, state) = self.table_mut(table)?;
        state.write_counter(code, key, priority, value)
    }

    /// Configures the direct meter of an entry, whose buckets are full then; `None`: every packet is green.
    ///
    /// # Errors
    /// No such entry; no direct meter.
    pub fn direct_meter_write(
        &mut self,
        table: TableId,
        key: &[KeyMatch],
        priority: i32,
        config: Option<MeterConfig>,
    ) -> Result<()> {
        let (code, state) = self.table_mut(table)?;
        state.write_meter(code, key, priority, config)
    }

    fn value_set(&self, set: usize) -> Result<&ValueSetInfo> {
        let found = self.program.value_sets.get(set);
        found.ok_or_else(|| ControlError::NotFound { kind: "value set with number", name: set.to_string() })
    }

    /// The members of a parser value set, each a value for each of its fields, in the order in which they were written.
    ///
    /// # Errors
    /// No such set.
    pub fn value_set_read(&self, set: usize) -> Result<Vec<Vec<u64>>> {
        let info = self.value_set(set)?;
        Ok(self.machine.value_sets[set].iter().map(|member| info.fields(*member)).collect())
    }

    /// Replaces the members of a parser value set.
    ///
    /// # Errors
    /// No such set; more members than it holds, one twice, or one of another shape.
    pub fn value_set_write(&mut self, set: usize, members: &[Vec<u64>]) -> Result<()> {
        let info = self.value_set(set)?;
        if members.len() > info.size {
            let (given, size) = (members.len(), info.size);
            let message = format!("value set {} holds at most {size} members, not {given}", info.name);
            return Err(ControlError::ResourceExhausted(message));
        }
        let mut packed = Vec::with_capacity(members.len());
        for member in members {
            let value = info.packed(member).ok_or_else(|| {
                let (name, widths) = (&info.name, &info.widths);
                let message = format!("value set {name}: a member has fields of {widths:?} bits, not {member:x?}");
                ControlError::InvalidArgument(message)
            })?;
            if packed.contains(&value) {
                let message = format!("value set {}: the member {member:x?} is given twice", info.name);
                return Err(ControlError::AlreadyExists(message));
            }
            packed.push(value);
        }
        self.machine.change().value_sets[set] = packed;
        Ok(())
    }

    fn counter_index(&self, counter: CounterId, index: u64) -> Result<(usize, u64)> {
        let at = counter.0 as usize;
        let Some(info) = self.program.counters.get(at) else {
            return Err(ControlError::NotFound { kind: "counter with id", name: at.to_string() });
        };
        let size = info.size as u64;
        if index >= size {
            return Err(ControlError::OutOfRange { name: info.name.clone(), index, size });
        }
        Ok((at, index))
    }

    /// Reads a cell of an indirect counter.
    ///
    /// # Errors
    /// Index out of range; a direct counter.
    pub fn counter_read(&self, counter: CounterId, index: u64) -> Result<CounterValue> {
        let (at, index) = self.counter_index(counter, index)?;
        Ok(self.machine.cells.counter(at, index).unwrap_or_default())
    }

    /// Writes a cell of an indirect counter.
    ///
    /// # Errors
    /// Index out of range; a direct counter.
    pub fn counter_write(&mut self, counter: CounterId, index: u64, value: CounterValue) -> Result<()> {
        let (at, index) = self.counter_index(counter, index)?;
        let machine = self.machine.change();
        machine.cells.set_counter(at, index, value);
        Ok(())
    }

    /// Reads a register cell, as words of 64 bits, the lowest first.
    ///
    /// # Errors
    /// Index out of range.
    pub fn register_read(&self, register: RegisterId, index: u64) -> Result<Vec<u64>> {
        let (at, name, size) = self.register(register)?;
        let words = words_of(&self.program.registers, at).into_iter();
        let value: Option<Vec<u64>> = words.map(|word| self.machine.cells.register(word.into(), index)).collect();
        value.ok_or_else(|| ControlError::OutOfRange { name: name.to_owned(), index, size })
    }

    /// Writes a register cell, as words of 64 bits, the lowest first; those that are not given are 0.
    ///
    /// # Errors
    /// Index out of range; value too wide.
    pub fn register_write(&mut self, register: RegisterId, index: u64, value: &[u64]) -> Result<()> {
        let (at, name, size) = self.register(register)?;
        let width = self.program.registers[at].width;
        let fits = |(number, word): (usize, &u64)| {
            let room = width.saturating_sub(64 * number as u32).min(64);
            word & !ones(room) == 0
        };
        if !value.iter().enumerate().all(fits) {
            let message = format!("{name} has cells of {width} bits: {value:x?} does not fit");
            return Err(ControlError::InvalidArgument(message));
        }
        if index >= size {
            return Err(ControlError::OutOfRange { name: name.to_owned(), index, size });
        }
        let words = words_of(&self.program.registers, at);
        let machine = self.machine.change();
        for (number, word) in words.into_iter().enumerate() {
            machine.cells.change(word, index, |_| value.get(number).copied().unwrap_or(0));
        }
        Ok(())
    }

    fn meter(&self, meter: MeterId, index: u64) -> Result<(usize, u64)> {
        let at = meter.0 as usize;
        let Some(info) = self.program.meters.get(at) else {
            return Err(ControlError::NotFound { kind: "meter with id", name: at.to_string() });
        };
        let size = info.size as u64;
        if index >= size {
            return Err(ControlError::OutOfRange { name: info.name.clone(), index, size });
        }
        Ok((at, index))
    }

    /// What a cell of a meter is configured as; `None`: every packet is green.
    ///
    /// # Errors
    /// Index out of range.
    pub fn meter_read(&self, meter: MeterId, index: u64) -> Result<Option<MeterConfig>> {
        let (at, index) = self.meter(meter, index)?;
        Ok(self.machine.meters.config(at, index).flatten())
    }

    /// A cell of a meter with what is in its buckets.
    ///
    /// # Errors
    /// Index out of range.
    pub fn meter_keep(&self, meter: MeterId, index: u64) -> Result<Cell> {
        let (at, index) = self.meter(meter, index)?;
        Ok(self.machine.meters.cell(at, index).unwrap_or_default())
    }

    /// Puts back what [`Pipeline::meter_keep`] gave.
    ///
    /// # Errors
    /// Index out of range.
    pub fn meter_put_back(&mut self, meter: MeterId, index: u64, cell: Cell) -> Result<()> {
        let (at, index) = self.meter(meter, index)?;
        self.machine.change().meters.put_back(at, index, cell);
        Ok(())
    }

    /// Configures a cell of a meter, whose buckets are full then.
    ///
    /// # Errors
    /// Index out of range.
    pub fn meter_write(&mut self, meter: MeterId, index: u64, config: Option<MeterConfig>) -> Result<()> {
        let (at, index) = self.meter(meter, index)?;
        self.machine.change().meters.configure(at, index, config);
        Ok(())
    }

    /// Where the cells of the register with this name are, for [`Pipeline::put`].
    #[must_use]
    pub fn register_place(&self, name: &str) -> Option<RegisterPlace> {
        let register = self.program.registers.iter().position(|register| register.name == name)?;
        self.machine.cells.place(register)
    }

    /// Writes a cell of a register, cut to its width, as the program itself does; nothing beyond the array.
    #[inline(always)]
    pub fn put(&mut self, place: &RegisterPlace, index: u64, value: u64) {
        self.machine.put(place, index, value);
    }

    fn register(&self, register: RegisterId) -> Result<(usize, &str, u64)> {
        let at = register.0 as usize;
        let info = self.program.registers.get(at);
        let info = info.ok_or_else(|| ControlError::NotFound { kind: "register with id", name: at.to_string() })?;
        Ok((at, &info.name, info.size as u64))
    }
}
