// SPDX-License-Identifier: Apache-2.0
//! Control flow: tables, conditions and direct action calls of ingress and egress.

use std::collections::HashMap;

use narrows_program::control::{ActionInfo, KeyInfo, MatchKind, TableId, TableInfo};
use narrows_program::externs::Extern;
use narrows_program::field::{Field, Place};
use narrows_program::key::KeyLayout;
use narrows_program::op::Op;
use narrows_program::table::{KeyPart, TableAction, TableCode, MAX_KEY_BITS};
use serde_json::Value;

use super::emit::{Emitter, Label};
use super::key::key_part;
use super::objects::MeterOfTable;
use super::{Objects, Result};
use crate::error::LoadError;
use crate::expr::Expr;
use crate::json;

#[derive(Clone, Copy)]
enum Kind {
    Table,
    Conditional,
    ActionCall,
}

struct Node<'v> {
    kind: Kind,
    value: &'v Value,
    label: Label,
}

pub(super) struct Control<'v, 'o> {
    nodes: HashMap<&'v str, Node<'v>>,
    pending: Vec<&'v str>,
    end: Label,
    pub objects: &'o mut Objects<'v>,
    pub(super) emitter: &'o mut Emitter,
    pub(super) tables: &'o mut Vec<TableCode>,
}

pub(super) fn compile<'v>(
    root: &'v Value,
    name: &str,
    objects: &mut Objects<'v>,
    emitter: &mut Emitter,
    tables: &mut Vec<TableCode>,
) -> Result<()> {
    let pipelines = json::array(root, "pipelines", "program")?;
    let Some(pipeline) = pipelines.iter().find(|p| p.get("name").and_then(Value::as_str) == Some(name)) else {
        return Err(LoadError::malformed(format!("there is no pipeline {name}")));
    };
    objects.load_profiles(pipeline, name)?;
    let mut nodes = HashMap::new();
    for (key, kind) in
        [("tables", Kind::Table), ("conditionals", Kind::Conditional), ("action_calls", Kind::ActionCall)]
    {
        for value in json::array(pipeline, key, name)? {
            let node = Node { kind, value, label: emitter.label() };
            if nodes.insert(json::text(value, "name", key)?, node).is_some() {
                return Err(LoadError::malformed(format!("{name}: two nodes have one name")));
            }
        }
    }
    let end = emitter.label();
    let mut control = Control { nodes, pending: Vec::new(), end, objects, emitter, tables };
    control.refuse_loops(name)?;
    if let Some(first) = json::optional_text(pipeline, "init_table", name)? {
        control.pending.push(control.known(first, name)?);
    }
    while let Some(name) = control.pending.pop() {
        control.node(name)?;
    }
    control.emitter.place(end);
    control.emitter.op(Op::End);
    Ok(())
}

impl<'v> Control<'v, '_> {
    fn known(&self, name: &str, place: &str) -> Result<&'v str> {
        let found = self.nodes.get_key_value(name).map(|(k, _)| *k);
        found.ok_or_else(|| LoadError::malformed(format!("{place}: no table or condition {name}")))
    }

    /// Control flow must not go in circles: a packet would never leave.
    fn refuse_loops(&self, place: &str) -> Result<()> {
        let mut left: HashMap<&str, Vec<&str>> = HashMap::new();
        for (name, node) in &self.nodes {
            let mut next = Vec::new();
            for key in ["true_next", "false_next", "next_node", "base_default_next"] {
                next.extend(node.value.get(key).and_then(Value::as_str));
            }
            if let Some(map) = node.value.get("next_tables").and_then(Value::as_object) {
                next.extend(map.values().filter_map(Value::as_str));
            }
            left.insert(name, next);
        }
        loop {
            let done: Vec<&str> =
                left.iter().filter(|(_, n)| !n.iter().any(|s| left.contains_key(s))).map(|(k, _)| *k).collect();
            if done.is_empty() && !left.is_empty() {
                return Err(LoadError::malformed(format!("{place}: control flow goes in circles")));
            }
            if done.is_empty() {
                return Ok(());
            }
            for name in done {
                left.remove(name);
            }
        }
    }

    /// Goes on at the node (or the end), which is compiled later unless it already is.
    pub(super) fn go(&mut self, next: Option<&str>, place: &str) -> Result<()> {
        let label = self.label(next, place)?;
        self.emitter.op(Op::Jump(label));
        Ok(())
    }

    pub(super) fn label(&mut self, next: Option<&str>, place: &str) -> Result<Label> {
        let Some(name) = next else {
            return Ok(self.end);
        };
        let name = self.known(name, place)?;
        self.pending.push(name);
        Ok(self.nodes[name].label)
    }

    fn node(&mut self, name: &'v str) -> Result<()> {
        let node = &self.nodes[name];
        let (value, label) = (node.value, node.label);
        if self.emitter.is_placed(label) {
            return Ok(());
        }
        // The jump that led here is not needed.
        self.emitter.fall_through(label);
        self.emitter.place(label);
        match node.kind {
            Kind::Table => self.table(name, value),
            Kind::Conditional => {
                let condition = Expr::parse(json::member(value, "expression", name)?, self.objects.layout, &[], name)?;
                let if_false = self.label(json::optional_text(value, "false_next", name)?, name)?;
                self.emitter.jump_if(&condition, false, if_false, name)?;
                self.emitter.end_statement();
                self.go(json::optional_text(value, "true_next", name)?, name)
            }
            Kind::ActionCall => {
                let action = self.action(json::number(value, "action_id", name)?, name)?;
                self.body(action, &[])?;
                self.go(json::optional_text(value, "next_node", name)?, name)
            }
        }
    }

    pub(super) fn action(&self, id: u64, place: &str) -> Result<usize> {
        let found = self.objects.action_ids.get(&id).copied();
        found.ok_or_else(|| LoadError::malformed(format!("{place}: no action with id {id}")))
    }

    pub(super) fn body(&mut self, action: usize, params: &[Expr]) -> Result<()> {
        let action = self.objects.actions[action].clone();
        action.compile(params, self.objects, self.emitter, self.end)
    }

    fn table(&mut self, name: &'v str, value: &'v Value) -> Result<()> {
        let place = format!("table {name}");
        let profile = self.profile_of(value, &place)?;
        let mut ids = Vec::new();
        for id in json::array(value, "action_ids", &place)? {
            ids.push(self.action(json::as_number(id, &place)?, &place)?);
        }
        let keys = self.keys(value, &place)?;
        let default = self.default_entry(value, &ids, &place)?;
        let const_default = value.get("default_entry").is_some_and(|d| json::flag(d, "action_const"));
        let infos: Vec<KeyInfo> = keys.iter().map(|k| k.0.clone()).collect();
        let entries = self.entries(value, &infos, &ids, &place)?;
        let kinds: Vec<MatchKind> = infos.iter().map(|k| k.kind).collect();
        let meter = self.objects.direct_meters.get(name).copied();
        if meter.is_none() && value.get("direct_meters").is_some_and(|named| !named.is_null()) {
            return Err(LoadError::malformed(format!("{place}: no meter in `meter_arrays` is bound to it")));
        }
        let info = TableInfo {
            id: TableId(self.tables.len() as u32),
            name: name.to_owned(),
            has_priority: kinds.iter().any(|k| matches!(k, MatchKind::Ternary | MatchKind::Range)),
            keys: infos,
            actions: ids.iter().map(|&i| self.objects.actions[i].info()).collect(),
            size: json::number(value, "max_size", &place)? as usize,
            direct_counter: json::flag(value, "with_counters"),
            direct_meter: meter.is_some(),
            idle_timeout: json::flag(value, "support_timeout"),
            const_default,
            const_entries: value.get("entries").is_some(),
        };
        let inline = keys.is_empty() && const_default && entries.is_empty();
        let parts = keys.iter().map(|(info, field, mask)| key_part(info, *field, *mask, &place));
        let parts = parts.collect::<Result<Vec<KeyPart>>>()?;
        let bits: u32 = parts.iter().map(|part| part.width).sum();
        if bits > MAX_KEY_BITS || KeyLayout::new(&parts, |_| true).is_none() {
            let what = format!("a key of {bits} bits ({MAX_KEY_BITS} are)");
            return Err(LoadError::unsupported(what, place));
        }
        let mut code = TableCode {
            parts,
            direct_counter: self.direct_counter(value, name)?,
            direct_meter: meter.map(|found| found.meter),
            params: self.objects.params,
            actions: Vec::new(),
            default,
            entries,
            info,
        };
        if inline {
            // What the compiler makes of a plain statement: the table can only miss, its action is known.
            let (index, data) = code.default.clone();
            let action = ids.get(usize::from(index)).copied();
            if let Some(action) = action {
                let constants: Vec<Expr> = data.iter().map(|&v| Expr::constant(v)).collect();
                self.body(action, &constants)?;
                let next = self.next(value, &self.objects.actions[action].name.clone(), false, &place)?;
                self.go(next, &place)?;
            } else {
                let next = self.next(value, "", false, &place)?;
                self.go(next, &place)?;
            }
            self.tables.push(code);
            return Ok(());
        }
        if self.tables.len() + 2 > usize::from(u16::MAX) {
            return Err(LoadError::unsupported("this number of tables", place));
        }
        self.emitter.op(Op::Table { table: self.tables.len() as u16 });
        if let Some(profile) = profile {
            return self.indirect(profile, code, &ids, value);
        }
        for &action in &ids {
            let object = self.objects.actions[action].clone();
            let mut labels = [0; 2];
            let nexts = [self.next(value, &object.name, false, &place)?, self.next(value, &object.name, true, &place)?];
            for hit in [true, false] {
                if !hit && nexts[0] == nexts[1] && meter.is_none() {
                    labels[0] = labels[1];
                    continue;
                }
                let label = self.emitter.label();
                self.emitter.place(label);
                if let Some(MeterOfTable { target, .. }) = meter.filter(|_| hit) {
                    self.color(target, &place)?;
                }
                self.body(action, &object.bind(self.objects.params))?;
                self.go(nexts[usize::from(hit)], &place)?;
                labels[usize::from(hit)] = label;
            }
            code.actions.push(object.in_table(labels));
        }
        code.actions.push(self.no_action(value, "", false, &place)?);
        self.tables.push(code);
        Ok(())
    }

    /// What happens where a table runs no action, such as after a miss without a default one: it goes on as behind `like`.
    pub(super) fn no_action(&mut self, value: &'v Value, like: &str, hit: bool, place: &str) -> Result<TableAction> {
        let label = self.emitter.label();
        self.emitter.place(label);
        let next = self.next(value, like, hit, place)?;
        self.go(next, place)?;
        Ok(TableAction { widths: Vec::new(), targets: [label; 2] })
    }

    /// Writes the color of a packet that has found an entry of the table that is being compiled, as BMv2 does before the action.
    pub(super) fn color(&mut self, target: Field, place: &str) -> Result<()> {
        let object = self.tables.len() as u16;
        let d = self.emitter.allocate(1, place)?;
        let zero = self.emitter.constant(0)?;
        self.emitter.op(Op::Move { d, s: zero });
        self.emitter.op(Op::Extern { call: Extern::DirectMeter, object, d, s: zero });
        let color = Field { place: Place::Slot(d), width: target.width.min(64), signed: false };
        self.emitter.assign(target, &Expr::Field(color), place)?;
        self.emitter.end_statement();
        Ok(())
    }

    /// Where control goes after an action.
    pub(super) fn next(&self, value: &'v Value, action: &str, hit: bool, place: &str) -> Result<Option<&'v str>> {
        let none = serde_json::Map::new();
        let nexts = value.get("next_tables").and_then(Value::as_object).unwrap_or(&none);
        let key = if hit { "__HIT__" } else { "__MISS__" };
        let found = match nexts.get(key).or_else(|| nexts.get(action)) {
            Some(found) => found,
            None if nexts.contains_key("__HIT__") || nexts.contains_key("__MISS__") => &Value::Null,
            None => value.get("base_default_next").unwrap_or(&Value::Null),
        };
        match found {
            Value::Null => Ok(None),
            name => self.known(json::as_text(name, place)?, place).map(Some),
        }
    }

    fn direct_counter(&self, value: &Value, name: &str) -> Result<Option<String>> {
        if !json::flag(value, "with_counters") {
            return Ok(None);
        }
        // The counter array names its table; the table does not name its counter.
        Ok(self.objects.direct_counters.get(name).cloned())
    }
}

impl super::action::Action<'_> {
    fn info(&self) -> ActionInfo {
        ActionInfo { name: self.name.clone(), params: self.params.clone() }
    }

    pub(super) fn in_table(&self, targets: [Label; 2]) -> TableAction {
        TableAction { widths: self.params.iter().map(|param| param.1).collect(), targets }
    }
}
