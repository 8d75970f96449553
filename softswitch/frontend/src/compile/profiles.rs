// SPDX-License-Identifier: Apache-2.0
//! Tables whose actions are in an action profile: what their entries find is a number, by which a second table finds the action.

use narrows_program::control::{KeyInfo, MatchKind, ProfileTable, Reference, TableId, TableInfo};
use narrows_program::externs::Extern;
use narrows_program::field::Slot;
use narrows_program::op::Op;
use narrows_program::table::{KeyPart, Source, TableAction, TableCode};
use serde_json::Value;

use super::control::Control;
use super::Result;
use crate::error::LoadError;
use crate::json;

impl<'v> Control<'v, '_> {
    /// The number of the profile that implements a table.
    pub(super) fn profile_of(&self, table: &Value, place: &str) -> Result<Option<usize>> {
        let with_selector = match json::text(table, "type", place)? {
            "simple" => return Ok(None),
            "indirect" => false,
            "indirect_ws" => true,
            other => return Err(LoadError::unsupported(format!("the implementation {other}"), place)),
        };
        let name = json::text(table, "action_profile", place)?;
        let found = self.objects.profiles.iter().position(|profile| profile.name == name);
        let number = found.ok_or_else(|| LoadError::malformed(format!("{place}: no action profile {name}")))?;
        if self.objects.profiles[number].selector != with_selector {
            return Err(LoadError::malformed(format!("{place}: only one of it and {name} has a selector")));
        }
        for key in ["default_entry", "entries"] {
            if table.get(key).is_some_and(|value| !value.is_null()) {
                let what = format!("`{key}` of a table with an action profile");
                return Err(LoadError::unsupported(what, place));
            }
        }
        Ok(Some(number))
    }

    /// The rest of such a table, which is applied already: `code` is what it has found, `ids` its actions.
    pub(super) fn indirect(
        &mut self,
        profile: usize,
        mut code: TableCode,
        ids: &[usize],
        value: &'v Value,
    ) -> Result<()> {
        let name = code.info.name.clone();
        let place = &format!("table {name}");
        let entries = self.tables.len();
        let actions = std::mem::replace(&mut code.info.actions, vec![Reference::action()]);
        // Nothing happens where no entry is found.
        code.default = (1, Vec::new());
        let color = self.objects.direct_meters.get(&name).map(|meter| meter.target);
        let (member, was_hit) = (self.emitter.allocate(1, place)?, self.emitter.allocate(1, place)?);
        let found = self.emitter.label();
        let mut labels = [0; 2];
        for hit in [true, false] {
            labels[usize::from(hit)] = self.emitter.label();
            self.emitter.place(labels[usize::from(hit)]);
            if let Some(target) = color.filter(|_| hit) {
                self.color(target, place)?;
            }
            let s = self.emitter.constant(hit.into())?;
            self.emitter.op(Op::Move { d: was_hit, s });
            self.choose(profile, member, place)?;
            self.emitter.op(Op::Jump(found));
        }
        let widths = Reference::action().params.iter().map(|param| param.1).collect();
        code.actions.push(TableAction { widths, targets: labels });
        code.actions.push(self.no_action(value, "", false, place)?);

        self.emitter.place(found);
        self.emitter.op(Op::Table { table: entries as u16 + 1 });
        let key = KeyInfo { name: "member".to_owned(), kind: MatchKind::Exact, width: 32 };
        let part = KeyPart { kind: key.kind, source: Source::Slot(member), width: key.width, mask: None };
        let info = TableInfo {
            id: TableId(entries as u32 + 1),
            // No P4 program can have this name.
            name: format!("{name} (members)"),
            keys: vec![key],
            actions,
            size: usize::MAX,
            has_priority: false,
            direct_counter: false,
            direct_meter: false,
            idle_timeout: false,
            const_default: true,
            const_entries: false,
        };
        let mut members = TableCode {
            parts: vec![part],
            actions: Vec::new(),
            params: self.objects.params,
            default: (ids.len() as u16, Vec::new()),
            entries: Vec::new(),
            direct_counter: None,
            direct_meter: None,
            info,
        };
        for &action in ids {
            let object = self.objects.actions[action].clone();
            let label = self.emitter.label();
            self.emitter.place(label);
            self.body(action, &object.bind(self.objects.params))?;
            let nexts = [self.next(value, &object.name, false, place)?, self.next(value, &object.name, true, place)?];
            if nexts[0] != nexts[1] {
                let to = self.label(nexts[0], place)?;
                self.emitter.op(Op::JumpZero { s: was_hit, to });
            }
            self.go(nexts[1], place)?;
            members.actions.push(object.in_table([label; 2]));
        }
        // An empty group: the entry was found, but there is nothing to do, which in P4 is an action, too.
        members.actions.push(self.no_action(value, "NoAction", true, place)?);
        let tables = ProfileTable { entries: code.info.id, members: members.info.id };
        self.objects.profiles[profile].tables.push(tables);
        self.tables.extend([code, members]);
        Ok(())
    }

    /// Writes the number of the member that an entry points to, or that the selector chooses from its group.
    fn choose(&mut self, profile: usize, member: Slot, place: &str) -> Result<()> {
        let params = self.objects.params;
        self.emitter.op(Op::Move { d: member, s: params });
        if let Some(calculation) = self.objects.selectors[profile] {
            let chosen = self.emitter.label();
            self.emitter.op(Op::JumpZero { s: params + 1, to: chosen });
            let hash = self.emitter.allocate(1, place)?;
            self.emitter.op(Op::Checksum { d: hash, calculation });
            self.emitter.op(Op::Extern { call: Extern::Select, object: profile as u16, d: member, s: hash });
            self.emitter.place(chosen);
        }
        self.emitter.end_statement();
        Ok(())
    }
}
