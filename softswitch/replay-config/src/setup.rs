//! The switch that a configuration describes: its program with entries, its ports and their queues.
// SPDX-License-Identifier: Apache-2.0
use std::sync::Arc;

use narrows_pipeline::{Pipeline, Program, TableInfo};
use narrows_switch::failure::Failure;
use narrows_switch::switch::{PortKind, Switch, FIRST};
use narrows_switch::tm::{PORTS, PRIORITIES};
use narrows_switch::unit::{CloneSession, ProgramUnit, MAX_SESSION};

use crate::config::{Config, QueueConfig};
use crate::{entries, link};

/// Refuses a port that a configuration does not have. Errors: names the place.
pub fn port_number(port: u16, known: &[u16], place: &str) -> Result<(), Failure> {
    match known.contains(&port) {
        true => Ok(()),
        false => Err(Failure::usage(format!("{place}: port {port} is not among ports and loopbacks"))),
    }
}

fn table<'p>(program: &'p Program, name: &str, place: &str) -> Result<&'p TableInfo, Failure> {
    let found = program.tables().iter().find(|table| table.name == name);
    found.ok_or_else(|| {
        let names: Vec<&str> = program.tables().iter().map(|table| table.name.as_str()).collect();
        Failure::usage(format!("{place}: no table {name}: the program has {}", names.join(", ")))
    })
}

/// Loads the program and installs entries, default actions and clone sessions.
fn unit(config: &Config, seed: u64) -> Result<ProgramUnit, Failure> {
    let place = config.program.display();
    let json = std::fs::read(&config.program).map_err(|error| Failure::usage(format!("{place}: {error}")))?;
    let program = Program::load(&json).map_err(|error| Failure::usage(format!("{place}: {error}")))?;
    if let Some(warning) = program.warning() {
        eprintln!("narrows-softswitch: warning: {place}: {warning}");
    }
    let program = Arc::new(program);
    let mut unit = ProgramUnit::new(Pipeline::new(Arc::clone(&program), seed));
    for (number, given) in config.entries.iter().enumerate() {
        let place = format!("entries[{number}]");
        let wrong = |why: String| Failure::usage(format!("{place}: table {}: {why}", given.table));
        let table = table(&program, &given.table, &place)?;
        let entry = entries::entry(table, given).map_err(wrong)?;
        unit.pipeline.table_insert(table.id, &entry).map_err(|error| wrong(error.to_string()))?;
    }
    for (number, given) in config.defaults.iter().enumerate() {
        let place = format!("defaults[{number}]");
        let wrong = |why: String| Failure::usage(format!("{place}: table {}: {why}", given.table));
        let table = table(&program, &given.table, &place)?;
        let action = entries::action(table, &given.action, &given.params).map_err(wrong)?;
        let set = unit.pipeline.table_set_default(table.id, Some(&action));
        set.map_err(|error| wrong(error.to_string()))?;
    }
    for (number, given) in config.clone_sessions.iter().enumerate() {
        let place = format!("clone_sessions[{number}]");
        if !(1..=MAX_SESSION).contains(&given.session) {
            return Err(Failure::usage(format!("{place}: session {}: allowed are 1 to {MAX_SESSION}", given.session)));
        }
        if usize::from(given.queue) >= PRIORITIES {
            return Err(Failure::usage(format!("{place}: queue {}: allowed are 0 to 7", given.queue)));
        }
        let replicas = given.ports.iter().map(|port| (*port, 0)).collect();
        let session =
            CloneSession { replicas, priority: given.queue, length_limit: given.length_limit, numeric_ports: false };
        unit.sessions.set(given.session, Some(session));
    }
    Ok(unit)
}

/// The switch as it is before the first frame.
pub fn switch(config: &Config, seed: u64) -> Result<Switch, Failure> {
    let interfaces = config.ports.iter().map(|port| (*port, PortKind::Interface));
    let loopbacks = config.loopbacks.iter().map(|port| (*port, PortKind::Loopback));
    let kinds: Vec<(u16, PortKind)> = interfaces.chain(loopbacks).collect();
    for (position, (port, _)) in kinds.iter().enumerate() {
        if usize::from(*port) >= PORTS {
            return Err(Failure::usage(format!("ports: {port}: allowed are 0 to {}", PORTS - 1)));
        }
        if kinds[..position].iter().any(|(other, _)| other == port) {
            return Err(Failure::usage(format!("ports: {port} is given twice")));
        }
    }
    if !config.loopbacks.is_empty() && config.until_ns.is_none() {
        return Err(Failure::usage("until_ns is missing: with loopback ports a frame may circulate for ever"));
    }
    let mut switch = Switch::new(&kinds, config.pool_packets);
    switch.set_unit(FIRST, unit(config, seed)?);
    Ok(switch)
}

/// Makes the settings of one entry of `queues`.
pub fn apply(switch: &mut Switch, given: &QueueConfig) -> Result<(), String> {
    let changes = link::changes(given)?;
    switch.tm.configure((given.port, given.queue), given.at_ns, changes).map(drop)
}

/// Queue settings in order of time; all are tried on a switch of their own first, so that a wrong one stops the run early.
pub fn schedule(config: &Config, known: &[u16]) -> Result<Vec<QueueConfig>, Failure> {
    let mut trial = Switch::new(&[], 1);
    for (number, given) in config.queues.iter().enumerate() {
        let place = format!("queues[{number}]");
        port_number(given.port, known, &place)?;
        apply(&mut trial, given).map_err(|error| Failure::usage(format!("{place}: {error}")))?;
    }
    let mut queues = config.queues.clone();
    queues.sort_by_key(|given| given.at_ns);
    Ok(queues)
}
