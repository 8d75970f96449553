// SPDX-License-Identifier: Apache-2.0
//! From JSON to instructions.

mod action;
mod architecture;
mod control;
mod emit;
mod entries;
mod headers;
mod key;
mod objects;
mod parser;
mod profiles;
mod stacks;
mod sums;

use narrows_program::cells::CellLayout;
use narrows_program::control::TableId;
use narrows_program::field::{Field, Place, Slot, TAIL};
use narrows_program::liveness::Ends;
use narrows_program::op::Op;
use narrows_program::table::TableCode;
use narrows_program::{Code, Program};
use serde_json::Value;

use crate::error::LoadError;
use crate::json;
use crate::layout::Layout;

use emit::Emitter;
use objects::Objects;

type Result<T> = std::result::Result<T, LoadError>;

/// Positions in a packet's buffer are 16 bits.
const MAX_HEADROOM: usize = 4096;

/// Compiles a whole program, of which fields of metadata are read when a packet has left egress.
pub(crate) fn compile(root: &Value, watched: &[String]) -> Result<Program> {
    check_version(root)?;
    refuse_externs(root)?;
    let layout = Layout::load(root)?;
    let watched = watched.iter().map(|name| watched_field(&layout, name)).collect::<Result<_>>()?;
    let mut emitter = Emitter::new(&layout);
    let mut objects = Objects::load(root, &layout, &mut emitter)?;

    let parser = emitter.ops.len() as u32;
    parser::compile(root, &mut objects, &mut emitter)?;
    let verify = emitter.ops.len() as u32;
    let checksums = sums::load(root, &objects)?;
    sums::verify(&checksums, &mut emitter)?;
    let mut tables: Vec<TableCode> = Vec::new();
    let ingress = emitter.ops.len() as u32;
    control::compile(root, "ingress", &mut objects, &mut emitter, &mut tables)?;
    let keeps_original = std::mem::take(&mut objects.keeps_original);
    let egress = emitter.ops.len() as u32;
    control::compile(root, "egress", &mut objects, &mut emitter, &mut tables)?;
    let update = emitter.ops.len() as u32;
    sums::update(&checksums, &mut emitter)?;

    let deparser = load_deparser(root, &layout)?;
    for table in &mut tables {
        for target in table.actions.iter_mut().flat_map(|a| &mut a.targets) {
            *target = emitter.address(*target)?;
        }
    }
    let slots = emitter.slots();
    let (ops, constants) = emitter.finish()?;
    let code = Code { ops, constants, parser, verify, ingress, egress, update };
    finish(&layout, slots, objects, tables, code, deparser, (keeps_original, watched))
}

/// A field that whoever loads the program wants to read.
fn watched_field(layout: &Layout, name: &str) -> Result<Field> {
    let found = name.split_once('.').and_then(|(header, field)| layout.field(header, field, name).ok());
    match found {
        Some(field @ Field { place: Place::Slot(_), width: ..=64, .. }) => Ok(field),
        Some(_) => Err(LoadError::unsupported("to watch what is not metadata of up to 64 bits", name)),
        None => Err(LoadError::malformed(format!("{name}: the program has no such field of metadata"))),
    }
}

fn finish(
    layout: &Layout,
    slots: Slot,
    objects: Objects,
    tables: Vec<TableCode>,
    code: Code,
    deparser: Vec<u8>,
    (keeps_original, watched): (bool, Vec<Field>),
) -> Result<Program> {
    let mut counters = objects.counters;
    for counter in &mut counters {
        counter.table = tables
            .iter()
            .position(|t| t.direct_counter.as_deref() == Some(counter.name.as_str()))
            .map(|i| TableId(i as u32));
    }
    let mut meters = objects.meters;
    for (number, table) in tables.iter().enumerate() {
        if let Some(found) = table.direct_meter {
            meters[usize::from(found.meter)].table = Some(TableId(number as u32));
        }
    }
    let calls =
        code.ops.iter().any(|op| matches!(op, Op::Extern { .. })) || tables.iter().any(|table| table.info.idle_timeout);
    let (digests, digest_fields) = objects.digests.into_iter().unzip();
    let (homes, headroom) = homes(layout, &code.ops, &deparser)?;
    let intrinsics = architecture::intrinsics(layout)?;
    let emitted = deparser.iter().fold(0, |set, &header| set | 1 << header) & !intrinsics.manager_headers();
    let times = |header: usize| deparser.iter().filter(|&&emitted| usize::from(emitted) == header).count() as u32;
    let emitted_bytes = layout.headers.iter().enumerate().map(|(header, h)| h.bytes * times(header)).collect();
    let placed = homes.iter().enumerate().filter(|(_, &home)| home > 0);
    let added_headers = placed.map(|(header, _)| 1 << header).sum();
    let mut program = Program {
        added_headers,
        cells: CellLayout::new(&objects.registers, &counters),
        headers: layout.headers.iter().map(|h| h.bytes).collect(),
        metadata_slots: layout.metadata_slots,
        slots,
        homes,
        headroom,
        deparser,
        emitted,
        emitted_bytes,
        infos: tables.iter().map(|t| t.info.clone()).collect(),
        tables,
        counters,
        registers: objects.registers,
        calculations: objects.calculations,
        digests,
        digest_fields,
        id: narrows_program::next_id(),
        watched,
        live: Vec::new(),
        zeroed: Vec::new(),
        zeroed_at_egress: Vec::new(),
        left_for_update: Vec::new(),
        kept: Vec::new(),
        manager_headers: intrinsics.manager_headers(),
        nanoseconds: intrinsics.any_of_manager(),
        intrinsics,
        errors: architecture::parser_errors(&objects.errors),
        keeps_original,
        calls,
        again: Vec::new(),
        meters,
        value_sets: objects.value_sets,
        profiles: objects.profiles,
        assertions: objects.assertions,
        verifies: false,
        code,
    };
    let kept: Vec<Field> = objects.field_lists.values().flatten().chain(&program.watched).copied().collect();
    crate::optimise::optimise(&mut program, &kept);
    program.verifies = program.code.ops[program.code.verify as usize] != Op::End;
    let ends = Ends::of(&program, &kept);
    program.zeroed = ends.zeroed(&program);
    program.zeroed_at_egress = ends.zeroed_at_egress;
    (program.live, program.left_for_update) = (ends.carried, ends.left_for_update);
    for (id, fields) in &objects.field_lists {
        let kept = program.kept_slots(fields);
        program.kept.push((*id as u16, kept));
        program.again.push((*id as u16, fields.iter().flat_map(|field| field.slots()).collect()));
    }
    Ok(program)
}

/// A place in the headroom for each header that the program can add, in the order of the deparser, right before the
/// frame, so that added headers often need no copying to be sent.
fn homes(layout: &Layout, ops: &[Op], deparser: &[u8]) -> Result<(Vec<u16>, usize)> {
    let added = |h: u8| {
        ops.iter().any(|op| {
            matches!(op, Op::AddHeader { header } if *header == h)
                || matches!(op, Op::CopyHeader { to, .. } if *to == h)
        })
    };
    let all = (0..layout.headers.len()).map(|h| h as u8);
    let mut order: Vec<u8> = all.filter(|h| !deparser.contains(h) && added(*h)).collect();
    for &h in deparser {
        if added(h) && !order.contains(&h) {
            order.push(h);
        }
    }
    let longest = layout.headers.iter().map(|h| h.bytes as usize).max().unwrap_or(0);
    let mut at = (longest + TAIL).next_multiple_of(16);
    let total: usize = order.iter().map(|&h| layout.headers[usize::from(h)].bytes as usize).sum();
    let headroom = (at + total).next_multiple_of(16);
    if headroom > MAX_HEADROOM {
        return Err(LoadError::unsupported(format!("more than {MAX_HEADROOM} bytes of added headers"), "headers"));
    }
    at = headroom - total;
    let mut homes = vec![0; layout.headers.len()];
    for h in order {
        homes[usize::from(h)] = at as u16;
        at += layout.headers[usize::from(h)].bytes as usize;
    }
    Ok((homes, headroom))
}

fn check_version(root: &Value) -> Result<()> {
    if !root.is_object() {
        return Err(LoadError::malformed("the program is not a JSON object"));
    }
    // A program that does not say its version is taken as it is, as BMv2 does.
    let Some(version) = root.get("__meta__").and_then(|meta| meta.get("version")) else {
        return Ok(());
    };
    match version.get(0).and_then(Value::as_u64) {
        Some(2) => Ok(()),
        Some(other) => Err(LoadError::unsupported(format!("BMv2 JSON version {other} (2 is)"), "__meta__")),
        None => Err(LoadError::malformed("__meta__: `version` is not a list of numbers")),
    }
}

/// A kind of objects that is not supported at all.
fn refuse_externs(root: &Value) -> Result<()> {
    match json::array(root, "extern_instances", "program")?.first() {
        Some(first) => {
            let name = first.get("name").and_then(Value::as_str).unwrap_or("extern_instances");
            Err(LoadError::unsupported("an extern", name))
        }
        None => Ok(()),
    }
}

fn load_deparser(root: &Value, layout: &Layout) -> Result<Vec<u8>> {
    let mut order = Vec::new();
    let deparsers = json::array(root, "deparsers", "program")?;
    let Some(deparser) = deparsers.iter().find(|d| d.get("name").and_then(Value::as_str) == Some("deparser")) else {
        return Err(LoadError::malformed("there is no deparser"));
    };
    if !json::array(deparser, "primitives", "deparser")?.is_empty() {
        return Err(LoadError::unsupported("a primitive", "deparser"));
    }
    for name in json::array(deparser, "order", "deparser")? {
        let header = layout.header(json::as_text(name, "deparser")?, "deparser")?;
        order.extend(layout.parts(header));
    }
    Ok(order)
}
