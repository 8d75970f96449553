// SPDX-License-Identifier: Apache-2.0
//! From JSON to instructions.

mod action;
mod control;
mod emit;
mod entries;
mod parser;
mod sums;

use std::collections::HashMap;

use serde_json::Value;

use crate::control::{CounterId, CounterInfo, DigestInfo, RegisterId, RegisterInfo, TableId};
use crate::error::LoadError;
use crate::hash::Calculation;
use crate::intrinsics::Intrinsics;
use crate::jit::Native;
use crate::json;
use crate::layout::{Field, Layout, Place, Slot};
use crate::op::Op;
use crate::program::{Code, Program};
use crate::state::State;
use crate::table::TableCode;

use action::Action;
pub(crate) use emit::ones;
use emit::Emitter;

type Result<T> = std::result::Result<T, LoadError>;

/// State that the program may declare: cells of registers and counters together.
const MAX_CELLS: u64 = 1 << 27;

/// Positions in a packet's buffer are 16 bits.
const MAX_HEADROOM: usize = 4096;

/// Everything that actions and parsers refer to by name.
struct Objects<'v> {
    layout: &'v Layout,
    actions: Vec<Action<'v>>,
    action_ids: HashMap<u64, usize>,
    registers: Vec<RegisterInfo>,
    counters: Vec<CounterInfo>,
    calculations: Vec<Calculation>,
    calculation_names: HashMap<String, u16>,
    /// Name of the direct counter of a table, by the table's name.
    direct_counters: HashMap<String, String>,
    /// Preserved fields of each clone field list, by the list's id.
    field_lists: HashMap<u64, Vec<Field>>,
    digests: Vec<(DigestInfo, Vec<Field>)>,
    /// First slot of the parameters of the action that a table has chosen.
    params: Slot,
    errors: HashMap<String, u64>,
    has_clone: bool,
    has_multicast: bool,
    egress_spec: Slot,
    mcast_grp: Option<Slot>,
    exit: Slot,
}

/// Compiles a whole program.
pub(crate) fn compile(root: &Value) -> Result<Program> {
    check_version(root)?;
    refuse_whole_kinds(root)?;
    let layout = Layout::load(root)?;
    let mut emitter = Emitter::new(&layout);
    let mut objects = load_objects(root, &layout, &mut emitter)?;

    let parser = emitter.ops.len() as u32;
    parser::compile(root, &mut objects, &mut emitter)?;
    let verify = emitter.ops.len() as u32;
    let checksums = sums::load(root, &objects)?;
    sums::verify(&checksums, &mut emitter)?;
    let mut tables: Vec<TableCode> = Vec::new();
    let ingress = emitter.ops.len() as u32;
    control::compile(root, "ingress", &mut objects, &mut emitter, &mut tables)?;
    let clones_at_ingress = std::mem::take(&mut objects.has_clone);
    let egress = emitter.ops.len() as u32;
    control::compile(root, "egress", &mut objects, &mut emitter, &mut tables)?;
    let update = emitter.ops.len() as u32;
    sums::update(&checksums, &mut emitter)?;

    let deparser = load_deparser(root, &layout)?;
    for table in &mut tables {
        table.resolve(|label| emitter.address(label))?;
    }
    let slots = emitter.slots();
    let (ops, constants) = emitter.finish()?;
    let code = Code {
        ops,
        constants,
        parser,
        verify,
        ingress,
        egress,
        update,
    };
    finish(
        &layout,
        slots,
        objects,
        tables,
        code,
        deparser,
        clones_at_ingress,
    )
}

fn finish(
    layout: &Layout,
    slots: Slot,
    objects: Objects,
    tables: Vec<TableCode>,
    code: Code,
    deparser: Vec<u8>,
    clones_at_ingress: bool,
) -> Result<Program> {
    let mut counters = objects.counters;
    for counter in &mut counters {
        counter.table = tables
            .iter()
            .position(|t| t.direct_counter.as_deref() == Some(counter.name.as_str()))
            .map(|i| TableId(i as u32));
    }
    let (digests, digest_fields) = objects.digests.into_iter().unzip();
    let (homes, headroom) = homes(layout, &code.ops, &deparser)?;
    let intrinsics = Intrinsics::of(layout)?;
    let placed = homes.iter().enumerate().filter(|(_, &home)| home > 0);
    let added_headers = placed.map(|(header, _)| 1 << header).sum();
    let mut program = Program {
        added_headers,
        places: State::layout(&objects.registers, &counters),
        headers: layout.headers.iter().map(|h| h.bytes).collect(),
        metadata_slots: layout.metadata_slots,
        slots,
        homes,
        headroom,
        deparser,
        infos: tables.iter().map(|t| t.info.clone()).collect(),
        tables,
        counters,
        registers: objects.registers,
        calculations: objects.calculations,
        digests,
        digest_fields,
        id: crate::program::next_id(),
        native: Err(String::new()),
        live: Vec::new(),
        zeroed: Vec::new(),
        left_for_update: Vec::new(),
        kept: Vec::new(),
        manager_headers: intrinsics.manager_headers(),
        intrinsics,
        errors: crate::program::ParserErrors::of(&objects.errors),
        uses_multicast: objects.has_multicast,
        clones_at_ingress,
        verifies: false,
        code,
    };
    let kept: Vec<Field> = objects.field_lists.values().flatten().copied().collect();
    crate::optimise::optimise(&mut program, &kept);
    program.verifies = program.code.ops[program.code.verify as usize] != Op::End;
    let sets = crate::live::Sets::of(&program, &kept);
    (program.live, program.zeroed) = (sets.carried, sets.zeroed);
    program.left_for_update = sets.left_for_update;
    for (id, fields) in &objects.field_lists {
        let kept = program.kept_slots(fields);
        program.kept.push((*id as u16, kept));
    }
    program.native = Native::compile(&program);
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
    let longest = layout
        .headers
        .iter()
        .map(|h| h.bytes as usize)
        .max()
        .unwrap_or(0);
    let mut at = (longest + crate::packet::TAIL).next_multiple_of(16);
    let total: usize = order
        .iter()
        .map(|&h| layout.headers[usize::from(h)].bytes as usize)
        .sum();
    let headroom = (at + total).next_multiple_of(16);
    if headroom > MAX_HEADROOM {
        return Err(LoadError::unsupported(
            format!("more than {MAX_HEADROOM} bytes of added headers"),
            "headers",
        ));
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
    let version = root
        .get("__meta__")
        .and_then(|m| m.get("version"))
        .and_then(|v| v.get(0))
        .and_then(Value::as_u64);
    match version {
        Some(2) => Ok(()),
        Some(other) => Err(LoadError::unsupported(
            format!("BMv2 JSON version {other} (2 is)"),
            "__meta__",
        )),
        None => Err(LoadError::malformed("__meta__: `version` is missing")),
    }
}

/// Kinds of objects that are not supported at all.
fn refuse_whole_kinds(root: &Value) -> Result<()> {
    for (key, what) in [
        ("meter_arrays", "a meter"),
        ("extern_instances", "an extern"),
        ("parse_vsets", "a parser value set"),
        ("header_union_stacks", "a header union stack"),
    ] {
        if let Some(first) = json::array(root, key, "program")?.first() {
            return Err(LoadError::unsupported(
                what,
                first.get("name").and_then(Value::as_str).unwrap_or(key),
            ));
        }
    }
    Ok(())
}

fn load_objects<'v>(
    root: &'v Value,
    layout: &'v Layout,
    emitter: &mut Emitter,
) -> Result<Objects<'v>> {
    let mut cells = 0u64;
    let mut count_cells = |size: u64, name: &str| {
        cells = cells.saturating_add(size);
        if cells > MAX_CELLS {
            return Err(LoadError::unsupported(
                format!("more than {MAX_CELLS} cells of state"),
                name,
            ));
        }
        Ok(())
    };
    let mut registers = Vec::new();
    for value in json::array(root, "register_arrays", "program")? {
        let name = json::text(value, "name", "register_arrays")?;
        let (size, width) = (
            json::number(value, "size", name)?,
            json::number(value, "bitwidth", name)?,
        );
        if width == 0 || width > 64 {
            return Err(LoadError::unsupported(
                format!("a register of {width} bits (1 to 64 are)"),
                name,
            ));
        }
        count_cells(size, name)?;
        let id = RegisterId(registers.len() as u32);
        registers.push(RegisterInfo {
            id,
            name: name.to_owned(),
            size: size as usize,
            width: width as u32,
        });
    }
    let mut counters = Vec::new();
    let mut direct_counters = HashMap::new();
    for value in json::array(root, "counter_arrays", "program")? {
        let name = json::text(value, "name", "counter_arrays")?;
        let direct = json::flag(value, "is_direct");
        if direct {
            direct_counters.insert(
                json::text(value, "binding", name)?.to_owned(),
                name.to_owned(),
            );
        }
        let size = if direct {
            0
        } else {
            json::number(value, "size", name)?
        };
        count_cells(size, name)?;
        let id = CounterId(counters.len() as u32);
        counters.push(CounterInfo {
            id,
            name: name.to_owned(),
            size: size as usize,
            table: None,
        });
    }
    let mut errors = HashMap::new();
    for error in json::array(root, "errors", "program")? {
        let (name, value) = json::pair(error, "errors")?;
        errors.insert(
            json::as_text(name, "errors")?.to_owned(),
            json::as_number(value, "errors")?,
        );
    }
    let mut actions = Vec::new();
    let mut action_ids = HashMap::new();
    let mut most_params = 0;
    for value in json::array(root, "actions", "program")? {
        let action = Action::load(value)?;
        most_params = most_params.max(action.slots());
        action_ids.insert(json::number(value, "id", &action.name)?, actions.len());
        actions.push(action);
    }
    let params = emitter.allocate(
        most_params.next_multiple_of(crate::table::BLOCK as u32),
        "action parameters",
    )?;
    let exit = emitter.allocate(1, "exit")?;
    let Some(egress_spec) = layout.intrinsic_slot("standard_metadata.egress_spec") else {
        return Err(LoadError::malformed(
            "standard_metadata.egress_spec is missing",
        ));
    };
    let (calculations, calculation_names) = sums::calculations(root, layout)?;
    Ok(Objects {
        layout,
        actions,
        action_ids,
        registers,
        counters,
        calculations,
        calculation_names,
        direct_counters,
        field_lists: load_field_lists(root, layout)?,
        digests: load_digests(root, layout)?,
        params,
        errors,
        has_clone: false,
        has_multicast: false,
        egress_spec,
        mcast_grp: layout.intrinsic_slot("intrinsic_metadata.mcast_grp"),
        exit,
    })
}

fn list_fields(value: &Value, layout: &Layout, name: &str) -> Result<Vec<Field>> {
    let mut fields = Vec::new();
    for element in json::array(value, "elements", name)? {
        match json::text(element, "type", name)? {
            "field" => fields.push(layout.field_ref(json::member(element, "value", name)?, name)?),
            other => {
                return Err(LoadError::unsupported(
                    format!("a {other} in a field list"),
                    name,
                ))
            }
        }
    }
    Ok(fields)
}

fn load_field_lists(root: &Value, layout: &Layout) -> Result<HashMap<u64, Vec<Field>>> {
    let mut lists = HashMap::new();
    for value in json::array(root, "field_lists", "program")? {
        let name = json::text(value, "name", "field_lists")?;
        let fields = list_fields(value, layout, name)?;
        if fields.iter().any(|f| !matches!(f.place, Place::Slot(_))) {
            return Err(LoadError::unsupported(
                "a header field in a clone field list",
                name,
            ));
        }
        lists.insert(json::number(value, "id", name)?, fields);
    }
    Ok(lists)
}

fn load_digests(root: &Value, layout: &Layout) -> Result<Vec<(DigestInfo, Vec<Field>)>> {
    let mut digests = Vec::new();
    for value in json::array(root, "learn_lists", "program")? {
        let name = json::text(value, "name", "learn_lists")?;
        let fields = list_fields(value, layout, name)?;
        let list = json::number(value, "id", name)?;
        let list =
            u32::try_from(list).map_err(|_| LoadError::malformed(format!("{name}: id {list}")))?;
        let widths = fields.iter().map(|f| f.width).collect();
        digests.push((
            DigestInfo {
                list,
                name: name.to_owned(),
                widths,
            },
            fields,
        ));
    }
    Ok(digests)
}

fn load_deparser(root: &Value, layout: &Layout) -> Result<Vec<u8>> {
    let mut order = Vec::new();
    let deparsers = json::array(root, "deparsers", "program")?;
    let Some(deparser) = deparsers
        .iter()
        .find(|d| d.get("name").and_then(Value::as_str) == Some("deparser"))
    else {
        return Err(LoadError::malformed("there is no deparser"));
    };
    if !json::array(deparser, "primitives", "deparser")?.is_empty() {
        return Err(LoadError::unsupported("a primitive", "deparser"));
    }
    for name in json::array(deparser, "order", "deparser")? {
        let header = layout.header(json::as_text(name, "deparser")?, "deparser")?;
        if order.contains(&header) {
            return Err(LoadError::unsupported(
                "a header that is emitted twice",
                "deparser",
            ));
        }
        order.push(header);
    }
    Ok(order)
}
