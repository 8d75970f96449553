// SPDX-License-Identifier: Apache-2.0
//! The language of p4c's tests (STF): entries and packets, and what is to leave.

use std::collections::BTreeMap;

use narrows_pipeline::{
    ActionCall, ActionSet, Entry, GroupConfig, KeyInfo, KeyMatch, MatchKind, MeterConfig, Pipeline, TableId, TableInfo,
    Target,
};
use narrows_switch::unit::{CloneSession, Group, ProgramUnit};

/// What a line of a script says.
#[derive(Debug)]
pub enum Line {
    /// Entries, groups, sessions: done at once.
    Control(Vec<String>),
    /// Port and frame.
    Packet(u16, Vec<u8>),
    /// Port and bit/s.
    Rate(u16, u64),
    Expect(u16, Pattern),
    Assertion(String),
}

/// A frame of which some half bytes may be anything.
#[derive(Debug, Clone)]
pub struct Pattern {
    /// `None` is any half byte.
    nibbles: Vec<Option<u8>>,
    /// Nothing follows.
    exact: bool,
}

impl Pattern {
    pub fn matches(&self, frame: &[u8]) -> bool {
        let found: Vec<u8> = frame.iter().flat_map(|byte| [byte >> 4, byte & 15]).collect();
        let long_enough =
            if self.exact { found.len() == self.nibbles.len() } else { found.len() >= self.nibbles.len() };
        long_enough
            && self.nibbles.iter().zip(&found).all(|(wanted, found)| wanted.is_none_or(|wanted| wanted == *found))
    }
}

fn number<T: TryFrom<u128>>(text: &str) -> Result<T, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u128::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.ok().and_then(|value| T::try_from(value).ok()).ok_or_else(|| format!("{text} is not a number"))
}

fn nibbles(digits: &str) -> Result<Vec<Option<u8>>, String> {
    let nibble = |digit: char| match digit {
        '*' => Ok(None),
        digit => digit.to_digit(16).map(|d| Some(d as u8)).ok_or_else(|| format!("{digit} is no hexadecimal digit")),
    };
    digits.chars().map(nibble).collect()
}

/// The lines of a script.
pub fn parse(text: &str) -> Result<Vec<Line>, String> {
    let mut lines = Vec::new();
    for line in text.lines().map(|line| line.split('#').next().unwrap_or("").trim()).filter(|line| !line.is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let rest = words.get(2..).unwrap_or_default().concat();
        lines.push(match words[0] {
            "packet" => {
                let digits = nibbles(&rest)?;
                let byte =
                    |pair: &[Option<u8>]| pair[0].unwrap_or(0) << 4 | pair.get(1).copied().flatten().unwrap_or(0);
                Line::Packet(number(words[1])?, digits.chunks(2).map(byte).collect())
            }
            "expect" => {
                let exact = rest.ends_with('$');
                let pattern = Pattern { nibbles: nibbles(rest.trim_end_matches('$'))?, exact };
                Line::Expect(number(words[1])?, pattern)
            }
            "wait" => continue,
            // Not in p4c's language: what a port sends, in bit/s, so that packets wait.
            "set_rate" => Line::Rate(number(words[1])?, number(words[2])?),
            // Not in p4c's language: what the program asserts there is shown to be wrong by the packets before.
            "expect_assertion" => Line::Assertion(words[1..].join(" ")),
            _ => Line::Control(words.iter().map(|word| (*word).to_owned()).collect()),
        });
    }
    Ok(lines)
}

/// Applies control lines to a program.
#[derive(Default)]
pub struct Controller {
    /// Replica id and ports of each node of a multicast group, in the order in which they were made.
    nodes: Vec<(u16, Vec<u16>)>,
    /// Clone sessions of a multicast group.
    sessions: BTreeMap<u16, u16>,
    entries: i32,
    /// The entries that were added: handles are their places among those of their table.
    added: Vec<(TableId, Vec<KeyMatch>, i32)>,
}

/// True if the name is the whole name or its end.
fn is_named(whole: &str, name: &str) -> bool {
    whole == name || whole.ends_with(&format!(".{name}"))
}

fn table<'t>(tables: &'t [TableInfo], name: &str) -> Result<&'t TableInfo, String> {
    tables.iter().find(|table| is_named(&table.name, name)).ok_or_else(|| format!("no table {name}"))
}

/// `action(name:value, ...)`
fn action(table: &TableInfo, text: &str) -> Result<ActionCall, String> {
    let (name, arguments) =
        text.trim_end_matches(')').split_once('(').ok_or_else(|| format!("{text} is not an action"))?;
    let found = table.actions.iter().find(|action| is_named(&action.name, name));
    let found = found.ok_or_else(|| format!("table {}: no action {name}", table.name))?;
    let given: Vec<(&str, &str)> =
        arguments.split(',').filter_map(|argument| argument.trim().split_once(':')).collect();
    let params = found.params.iter().map(|(param, _)| {
        let value = given.iter().find(|(name, _)| name == param).map(|(_, value)| value.trim());
        number(value.ok_or_else(|| format!("action {name}: no {param}"))?)
    });
    Ok(ActionCall { action: found.name.clone(), params: params.collect::<Result<_, String>>()? })
}

fn profile(pipeline: &Pipeline, name: &str) -> Result<usize, String> {
    let found = pipeline.program().profiles.iter().position(|profile| is_named(&profile.name, name));
    found.ok_or_else(|| format!("no action profile {name}"))
}

/// An action that a member of a profile can have.
fn member(pipeline: &Pipeline, profile: usize, text: &str) -> Result<ActionCall, String> {
    let program = pipeline.program();
    let table = program.profiles[profile].tables.first().ok_or("a profile without tables")?;
    action(&program.tables()[table.members.0 as usize], text)
}

/// `TEXT*WEIGHT`, where the weight may be left out.
fn weighted(text: &str) -> (&str, &str) {
    text.rsplit_once('*').unwrap_or((text, "1"))
}

/// What an entry of a table with a profile has: `member(ID)`, `group(ID)`, or `set(action(...)*weight; ...)`.
fn target(pipeline: &mut Pipeline, profile: usize, text: &str) -> Result<ActionCall, String> {
    let (kind, rest) = text.split_once('(').ok_or_else(|| format!("{text} is not a member, group or set"))?;
    let inner = rest.strip_suffix(')').ok_or_else(|| format!("{text}: no end"))?;
    let target = match kind {
        "member" => Target::Member(number(inner)?),
        "group" => Target::Group(number(inner)?),
        "set" => {
            let one = |text: &str| {
                let (call, weight) = weighted(text);
                Ok((member(pipeline, profile, call)?, number(weight)?))
            };
            let actions = inner.split(';').map(one).collect::<Result<Vec<(ActionCall, u32)>, String>>()?;
            let takes = actions.iter().map(|(_, weight)| u64::from(*weight)).sum();
            Target::Set(ActionSet { actions, takes, note: (0, 0) })
        }
        other => return Err(format!("{other} is not a member, group or set")),
    };
    pipeline.table_action(profile, &target, 0).map_err(|error| error.to_string())
}

fn key(info: &KeyInfo, text: &str) -> Result<KeyMatch, String> {
    let all = u128::MAX >> (128 - info.width.clamp(1, 128));
    let (value, mask): (u128, u128) = match (text.split_once("&&&"), text.contains('*')) {
        (Some((value, mask)), _) => (number(value)?, number(mask)?),
        (None, true) => {
            let digits = nibbles(text.trim_start_matches("0x"))?;
            let fold =
                |of: fn(Option<u8>) -> u8| digits.iter().fold(0u128, |sum, digit| sum << 4 | u128::from(of(*digit)));
            (fold(|digit| digit.unwrap_or(0)), fold(|digit| if digit.is_some() { 15 } else { 0 }))
        }
        (None, false) => (number(text.split('/').next().unwrap_or(text))?, all),
    };
    Ok(match info.kind {
        MatchKind::Exact => KeyMatch::Exact(value),
        MatchKind::Ternary => KeyMatch::Ternary { value: value & mask, mask: mask & all },
        MatchKind::Lpm => {
            let prefix_len = match text.split_once('/') {
                Some((_, length)) => number(length)?,
                None => mask.count_ones(),
            };
            KeyMatch::Lpm { value, prefix_len }
        }
        MatchKind::Range => match text.split_once("->") {
            Some((low, high)) => KeyMatch::Range { low: number(low)?, high: number(high)? },
            None => KeyMatch::Range { low: value, high: value },
        },
    })
}

impl Controller {
    /// Does what a line says.
    pub fn apply(&mut self, unit: &mut ProgramUnit, words: &[String]) -> Result<(), String> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let word = |at: usize| words.get(at).copied().ok_or_else(|| format!("{}: too short", words.join(" ")));
        match words[0] {
            "add" => self.add(&mut unit.pipeline, word(1)?, &words[2..]),
            "setdefault" => {
                let program = unit.pipeline.program().clone();
                let table = table(program.tables(), word(1)?)?;
                let action = action(table, &words[2..].join(""))?;
                unit.pipeline.table_set_default(table.id, Some(&action)).map_err(|error| error.to_string())
            }
            "mc_mgrp_create" => {
                unit.groups.set(number(word(1)?)?, Some(Group::default()));
                Ok(())
            }
            "mc_node_create" => {
                let ports = words[2..].iter().map(|port| number(port)).collect::<Result<_, _>>()?;
                self.nodes.push((number(word(1)?)?, ports));
                Ok(())
            }
            "mc_node_associate" => {
                let (group, node): (u16, usize) = (number(word(1)?)?, number(word(2)?)?);
                let (rid, ports) = self.nodes.get(node).ok_or("no such node")?;
                let mut members = unit.groups.get(group).cloned().ok_or("no such group")?;
                members.replicas.extend(ports.iter().map(|port| (*port, *rid)));
                unit.groups.set(group, Some(members));
                self.renew_sessions(unit);
                Ok(())
            }
            "mirroring_add" => {
                let session = CloneSession { replicas: vec![(number(word(2)?)?, 0)], ..CloneSession::default() };
                unit.sessions.set(number(word(1)?)?, Some(session));
                Ok(())
            }
            "mirroring_add_mc" => {
                self.sessions.insert(number(word(1)?)?, number(word(2)?)?);
                self.renew_sessions(unit);
                Ok(())
            }
            "register_write" => {
                let program = unit.pipeline.program().clone();
                let found = program.registers.iter().find(|register| is_named(&register.name, words[1]));
                let id = found.ok_or("no such register")?.id;
                let (index, value) = (number(word(2)?)?, number::<u128>(word(3)?)?);
                let words = [value as u64, (value >> 64) as u64];
                unit.pipeline.register_write(id, index, &words).map_err(|error| error.to_string())
            }
            "meter_set_rates" => {
                let index = number(word(2)?)?;
                self.set_rates(&mut unit.pipeline, word(1)?, Some(index), &words[3..])
            }
            "meter_array_set_rates" => self.set_rates(&mut unit.pipeline, word(1)?, None, &words[2..]),
            // Not in p4c's language, where nothing is in profiles: the id of a member or group, and its action or its members.
            "member_add" | "member_modify" | "group_add" | "group_modify" => {
                let pipeline = &mut unit.pipeline;
                let (profile, id) = (profile(pipeline, word(1)?)?, number(word(2)?)?);
                let done = if words[0].starts_with("member") {
                    let call = member(pipeline, profile, &words[3..].concat())?;
                    match words[0] {
                        "member_add" => pipeline.member_insert(profile, id, &call),
                        _ => pipeline.member_modify(profile, id, &call),
                    }
                } else {
                    let members = words[3..].iter().map(|text| {
                        let (member, weight) = weighted(text);
                        Ok((number(member)?, number(weight)?))
                    });
                    let members = members.collect::<Result<Vec<(u32, u32)>, String>>()?;
                    let takes = members.iter().map(|(_, weight)| u64::from(*weight)).sum();
                    let config = GroupConfig { members, takes, max_size: 0 };
                    match words[0] {
                        "group_add" => pipeline.group_insert(profile, id, &config),
                        _ => pipeline.group_modify(profile, id, &config),
                    }
                };
                done.map_err(|error| error.to_string())
            }
            // Not in p4c's language: value sets are empty there.
            "value_set_add" => {
                let program = unit.pipeline.program().clone();
                let found = program.value_sets.iter().position(|set| is_named(&set.name, words[1]));
                let set = found.ok_or("no such value set")?;
                let mut members = unit.pipeline.value_set_read(set).map_err(|error| error.to_string())?;
                members.push(words[2..].iter().map(|value| number(value)).collect::<Result<_, _>>()?);
                unit.pipeline.value_set_write(set, &members).map_err(|error| error.to_string())
            }
            // Of p4c's language in another form: a table, the number of its entry, and packets.
            "check_counter" => self.check_counter(&unit.pipeline, word(1)?, number(word(2)?)?, number(word(3)?)?),
            // What these print is not looked at.
            "mirroring_get" | "register_read" | "meter_get_rates" => Ok(()),
            other => Err(format!("the command {other}")),
        }
    }

    /// Sessions of groups have the groups' members.
    fn renew_sessions(&self, unit: &mut ProgramUnit) {
        for (session, group) in &self.sessions {
            let replicas = unit.groups.get(*group).map(|group| group.replicas.clone()).unwrap_or_default();
            unit.sessions.set(*session, Some(CloneSession { replicas, ..CloneSession::default() }));
        }
    }

    fn add(&mut self, pipeline: &mut Pipeline, name: &str, words: &[&str]) -> Result<(), String> {
        let program = pipeline.program().clone();
        let table = table(program.tables(), name)?;
        let (given, words) = match words.first().filter(|word| !word.contains([':', '('])) {
            Some(priority) => (Some(number::<i32>(priority)?), &words[1..]),
            None => (None, words),
        };
        self.entries += 1;
        let first_of_action = words.iter().position(|word| word.contains('(')).unwrap_or(words.len());
        let action = match pipeline.profile_of(table.id) {
            Some(profile) => target(pipeline, profile, &words[first_of_action..].concat())?,
            None => action(table, &words[first_of_action..].concat())?,
        };
        let parts: Vec<(&str, &str)> =
            words[..first_of_action].iter().filter_map(|word| word.split_once(':')).collect();
        let mut keys = Vec::new();
        for (position, info) in table.keys.iter().enumerate() {
            let by_name = parts.iter().find(|(name, _)| is_named(&info.name, name) || is_named(name, &info.name));
            let by_place = parts.get(position).filter(|_| parts.len() == table.keys.len());
            match (by_name.or(by_place), info.kind) {
                (Some((_, text)), _) => keys.push(key(info, text)?),
                (None, MatchKind::Ternary) => keys.push(KeyMatch::Ternary { value: 0, mask: 0 }),
                (None, _) => return Err(format!("table {name}: no {}", info.name)),
            }
        }
        // The greatest number wins, as in p4c's runner for BMv2; without one, the entry that was added first.
        let priority = if table.has_priority { given.map_or((1 << 20) - self.entries, |given| given + 1) } else { 0 };
        self.added.push((table.id, keys.clone(), priority));
        let entry = Entry { key: keys, priority, action };
        pipeline.table_insert(table.id, &entry).map_err(|error| error.to_string())
    }

    /// Errors: the entry's direct counter has another number of packets.
    fn check_counter(&self, pipeline: &Pipeline, name: &str, entry: usize, packets: u64) -> Result<(), String> {
        let table = table(pipeline.program().tables(), name)?.id;
        let (_, key, priority) = self.added.iter().filter(|(of, ..)| *of == table).nth(entry).ok_or("no such entry")?;
        let part = pipeline.table_entries_from(table, 0, usize::MAX).map_err(|error| error.to_string())?;
        let found = part.entries.iter().find(|(_, entry, _)| (&entry.key, entry.priority) == (key, *priority));
        match found.map(|(.., state)| state.counter.packets) {
            Some(counted) if counted == packets => Ok(()),
            counted => Err(format!("{name} {entry}: {counted:?} packets, expected {packets}")),
        }
    }

    /// Rates are in tokens a microsecond.
    fn set_rates(&self, pipeline: &mut Pipeline, name: &str, index: Option<u64>, rates: &[&str]) -> Result<(), String> {
        let program = pipeline.program().clone();
        let meter = program.meters.iter().find(|meter| is_named(&meter.name, name)).ok_or("no such meter")?;
        let rate = |text: &str| -> Option<(u64, u64)> {
            let (rate, burst) = text.split_once(':')?;
            Some(((rate.parse::<f64>().ok()? * 1e6).round() as u64, burst.parse().ok()?))
        };
        let rates: Vec<(u64, u64)> = rates.iter().filter_map(|text| rate(text)).collect();
        let [(cir, cburst), (pir, pburst)] = rates[..] else {
            return Err("a meter has two rates".to_owned());
        };
        let config = MeterConfig::TwoRates { cir, cburst, pir, pburst };
        if let (Some(table), Some(handle)) = (meter.table, index) {
            let entry = self.added.iter().filter(|(of, ..)| *of == table).nth(handle as usize);
            let (_, key, priority) = entry.ok_or("no such entry")?;
            let written = pipeline.direct_meter_write(table, key, *priority, Some(config));
            return written.map_err(|error| error.to_string());
        }
        let cells = index.map_or(0..meter.size as u64, |index| index..index + 1);
        for cell in cells {
            pipeline.meter_write(meter.id, cell, Some(config)).map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}
