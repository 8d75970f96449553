// SPDX-License-Identifier: Apache-2.0
//! What a pipeline takes over from another one, whose program may be another version of its own.

use narrows_interpreter::ControlError;
use narrows_program::control::{ProfileInfo, ProfileTable, RegisterInfo};
use narrows_program::table::TableCode;

use crate::Pipeline;

type Result<T> = std::result::Result<T, ControlError>;

/// Something of the other pipeline has no place here.
fn lost(what: &str, name: &str, why: &str) -> ControlError {
    ControlError::InvalidArgument(format!("{what} {name} cannot be preserved: {why}"))
}

impl Pipeline {
    /// Takes over the state of another pipeline, by the names of what has it: entries with their counters and meters, default
    /// actions, cells, value sets. Constant entries are the program's own.
    ///
    /// # Errors
    /// What has no place here, where there is any state in it. This pipeline has only a part of the state then.
    pub fn adopt(&mut self, old: &Pipeline) -> Result<()> {
        for (code, number) in old.program.tables.iter().zip(0..) {
            self.adopt_table(old, code, number)?;
        }
        self.adopt_profiles(old)?;
        self.adopt_registers(old)?;
        self.adopt_counters(old)?;
        self.adopt_meters(old)?;
        for (number, set) in old.program.value_sets.iter().enumerate() {
            let members = old.value_set_read(number)?;
            match self.program.value_sets.iter().position(|known| known.name == set.name) {
                Some(place) => self.value_set_write(place, &members)?,
                None if members.is_empty() => {}
                None => return Err(lost("value set", &set.name, "the new program has none of this name")),
            }
        }
        Ok(())
    }

    fn adopt_table(&mut self, old: &Pipeline, code: &TableCode, number: usize) -> Result<()> {
        let (name, state) = (&code.info.name, &old.machine.tables[number]);
        let entries = if code.info.const_entries { vec![] } else { state.kept(code) };
        let default = state.changed_default(code);
        if entries.is_empty() && default.is_none() {
            return Ok(());
        }
        let place = self.program.tables.iter().position(|known| known.info.name == *name);
        let place = place.ok_or_else(|| lost("table", name, "the new program has none of this name"))?;
        let (next, table) = (&self.program.tables[place], &mut self.machine.change().tables[place]);
        if let Some(call) = default {
            table.set_default(next, Some(&call))?;
        }
        if entries.is_empty() {
            return Ok(());
        }
        let resources = |code: &TableCode| (code.info.direct_counter, code.direct_meter.map(|meter| meter.bytes));
        if next.info.keys != code.info.keys || next.info.const_entries {
            return Err(lost("table", name, "its key is another one, or its entries are constant"));
        }
        if resources(next) != resources(code) || next.info.idle_timeout != code.info.idle_timeout {
            return Err(lost("table", name, "its counters, meters or idle timeouts are others"));
        }
        table.adopt(next, &entries)
    }

    /// What profiles have besides entries of tables: numbers and groups.
    fn adopt_profiles(&mut self, old: &Pipeline) -> Result<()> {
        for (number, profile) in old.program.profiles.iter().enumerate() {
            let state = &old.machine.profiles[number];
            if state.members.is_empty() && state.contents.is_empty() {
                continue;
            }
            let tables = |pipeline: &Pipeline, profile: &ProfileInfo| -> Vec<String> {
                let of = |table: &ProfileTable| pipeline.program.infos[table.entries.0 as usize].name.clone();
                profile.tables.iter().map(of).collect()
            };
            let same = |known: &ProfileInfo| known.name == profile.name && known.selector == profile.selector;
            let place = self.program.profiles.iter().position(same);
            let place = place.filter(|place| {
                let known = &self.program.profiles[*place];
                known.size >= profile.size && tables(self, known) == tables(old, profile)
            });
            let place =
                place.ok_or_else(|| lost("action profile", &profile.name, "it is smaller, or of other tables"))?;
            self.machine.change().profiles[place] = state.clone();
        }
        Ok(())
    }

    fn adopt_registers(&mut self, old: &Pipeline) -> Result<()> {
        for register in &old.program.registers {
            let same = |known: &&RegisterInfo| known.name == register.name && known.width == register.width;
            let found = self.program.registers.iter().find(same).map(|known| (known.id, known.size));
            for index in 0..register.size as u64 {
                let value = old.register_read(register.id, index)?;
                match found {
                    Some((id, size)) if index < size as u64 => self.register_write(id, index, &value)?,
                    _ if value.iter().all(|word| *word == 0) => {}
                    _ => return Err(lost("register", &register.name, "it is narrower or shorter")),
                }
            }
        }
        Ok(())
    }

    fn adopt_counters(&mut self, old: &Pipeline) -> Result<()> {
        for counter in old.program.counters.iter().filter(|counter| counter.table.is_none()) {
            let mut known = self.program.counters.iter().filter(|known| known.table.is_none());
            let found = known.find(|known| known.name == counter.name).map(|known| (known.id, known.size));
            for index in 0..counter.size as u64 {
                let value = old.counter_read(counter.id, index)?;
                match found {
                    Some((id, size)) if index < size as u64 => self.counter_write(id, index, value)?,
                    _ if value == Default::default() => {}
                    _ => return Err(lost("counter", &counter.name, "it is shorter")),
                }
            }
        }
        Ok(())
    }

    fn adopt_meters(&mut self, old: &Pipeline) -> Result<()> {
        for meter in old.program.meters.iter().filter(|meter| meter.table.is_none()) {
            let mut known = self.program.meters.iter().filter(|known| known.table.is_none());
            let found = known.find(|known| known.name == meter.name && known.bytes == meter.bytes);
            let found = found.map(|known| (known.id, known.size));
            for index in 0..meter.size as u64 {
                let configured = old.meter_read(meter.id, index)?.is_some();
                match found {
                    Some((id, size)) if index < size as u64 => {
                        self.meter_put_back(id, index, old.meter_keep(meter.id, index)?)?;
                    }
                    _ if !configured => {}
                    _ => return Err(lost("meter", &meter.name, "it is shorter, or of another unit")),
                }
            }
        }
        Ok(())
    }
}
