// SPDX-License-Identifier: Apache-2.0
//! The objects of a program that others refer to by name or number: actions, registers, counters, calculations, field lists.

use std::collections::HashMap;

use narrows_program::calculation::Calculation;
use narrows_program::control::{
    CounterId, CounterInfo, DigestInfo, MeterId, MeterInfo, ProfileInfo, Reference, RegisterId, RegisterInfo,
    ValueSetInfo,
};
use narrows_program::field::{Field, Place, Slot, MAX_WIDTH};
use narrows_program::table::{DirectMeter, BLOCK};
use serde_json::Value;

use super::action::Action;
use super::emit::Emitter;
use super::{sums, Result};
use crate::error::LoadError;
use crate::json;
use crate::layout::Layout;

/// State that the program may declare: cells of registers and counters together.
const MAX_CELLS: u64 = 1 << 27;

/// A direct meter, and the field that its color is written to.
#[derive(Clone, Copy)]
pub(super) struct MeterOfTable {
    pub meter: DirectMeter,
    pub target: Field,
}

/// Everything that actions and parsers refer to by name.
pub(super) struct Objects<'v> {
    pub layout: &'v Layout,
    pub actions: Vec<Action<'v>>,
    pub action_ids: HashMap<u64, usize>,
    pub registers: Vec<RegisterInfo>,
    pub counters: Vec<CounterInfo>,
    pub calculations: Vec<Calculation>,
    pub calculation_names: HashMap<String, u16>,
    /// Name of the direct counter of a table, by the table's name.
    pub direct_counters: HashMap<String, String>,
    /// The direct meter of a table, by the table's name.
    pub direct_meters: HashMap<String, MeterOfTable>,
    /// Preserved fields of each clone field list, by the list's id.
    pub field_lists: HashMap<u64, Vec<Field>>,
    pub digests: Vec<(DigestInfo, Vec<Field>)>,
    /// First slot of the parameters of the action that a table has chosen.
    pub params: Slot,
    pub errors: HashMap<String, u64>,
    pub meters: Vec<MeterInfo>,
    pub value_sets: Vec<ValueSetInfo>,
    pub profiles: Vec<ProfileInfo>,
    /// The calculation by which each profile's selector chooses.
    pub selectors: Vec<Option<u16>>,
    /// [`narrows_program::Program::assertions`]
    pub assertions: Vec<String>,
    /// An action asks for the packet as it came in.
    pub keeps_original: bool,
    pub egress_spec: Slot,
    pub mcast_grp: Option<Slot>,
    pub exit: Slot,
}

impl<'v> Objects<'v> {
    pub(super) fn load(root: &'v Value, layout: &'v Layout, emitter: &mut Emitter) -> Result<Self> {
        let mut cells = 0u64;
        let mut count_cells = |size: u64, name: &str| {
            cells = cells.saturating_add(size);
            if cells > MAX_CELLS {
                return Err(LoadError::unsupported(format!("more than {MAX_CELLS} cells of state"), name));
            }
            Ok(())
        };
        let (mut registers, mut words) = (Vec::new(), 0);
        for value in json::array(root, "register_arrays", "program")? {
            let name = json::text(value, "name", "register_arrays")?;
            let (size, width) = (json::number(value, "size", name)?, json::number(value, "bitwidth", name)?);
            if width == 0 || width > u64::from(MAX_WIDTH) {
                let what = format!("a register of {width} bits (1 to {MAX_WIDTH} are)");
                return Err(LoadError::unsupported(what, name));
            }
            count_cells(size.saturating_mul(width.div_ceil(64)), name)?;
            words += width.div_ceil(64) as usize;
            json::numbered(words - 1, "words of registers", name)?;
            let id = RegisterId(registers.len() as u32);
            registers.push(RegisterInfo { id, name: name.to_owned(), size: size as usize, width: width as u32 });
        }
        let mut counters = Vec::new();
        let mut direct_counters = HashMap::new();
        for value in json::array(root, "counter_arrays", "program")? {
            let name = json::text(value, "name", "counter_arrays")?;
            let direct = json::flag(value, "is_direct");
            if direct {
                direct_counters.insert(json::text(value, "binding", name)?.to_owned(), name.to_owned());
            }
            let size = if direct { 0 } else { json::number(value, "size", name)? };
            count_cells(size, name)?;
            json::numbered(counters.len(), "counters", name)?;
            let id = CounterId(counters.len() as u32);
            counters.push(CounterInfo { id, name: name.to_owned(), size: size as usize, table: None });
        }
        let (mut meters, mut direct_meters) = (Vec::new(), HashMap::new());
        for value in json::array(root, "meter_arrays", "program")? {
            let name = json::text(value, "name", "meter_arrays")?;
            let direct = json::flag(value, "is_direct");
            let size = if direct { 0 } else { json::number(value, "size", name)? };
            count_cells(size, name)?;
            json::numbered(meters.len(), "meters", name)?;
            let bytes = match json::text(value, "type", name)? {
                "bytes" => true,
                "packets" => false,
                other => return Err(LoadError::unsupported(format!("a meter of {other}"), name)),
            };
            let id = MeterId(meters.len() as u32);
            if direct {
                let target = layout.field_ref(json::member(value, "result_target", name)?, name)?;
                let meter = DirectMeter { meter: meters.len() as u16, bytes };
                direct_meters.insert(json::text(value, "binding", name)?.to_owned(), MeterOfTable { meter, target });
            }
            meters.push(MeterInfo { id, name: name.to_owned(), size: size as usize, table: None, bytes });
        }
        let mut errors = HashMap::new();
        for error in json::array(root, "errors", "program")? {
            let (name, value) = json::pair(error, "errors")?;
            errors.insert(json::as_text(name, "errors")?.to_owned(), json::as_number(value, "errors")?);
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
        most_params = most_params.max(Reference::action().params.len() as u32);
        let params = emitter.allocate(most_params.next_multiple_of(BLOCK as u32), "action parameters")?;
        let exit = emitter.allocate(1, "exit")?;
        let Some(egress_spec) = layout.intrinsic_slot("standard_metadata.egress_spec") else {
            return Err(LoadError::malformed("standard_metadata.egress_spec is missing"));
        };
        let mcast_grp = layout.intrinsic_slot("intrinsic_metadata.mcast_grp");
        let (calculations, calculation_names) = sums::calculations(root, layout)?;
        Ok(Self {
            layout,
            actions,
            action_ids,
            registers,
            counters,
            calculations,
            calculation_names,
            direct_counters,
            direct_meters,
            value_sets: load_value_sets(root)?,
            profiles: Vec::new(),
            selectors: Vec::new(),
            assertions: Vec::new(),
            field_lists: load_field_lists(root, layout)?,
            digests: load_digests(root, layout)?,
            params,
            errors,
            meters,
            keeps_original: false,
            egress_spec,
            mcast_grp,
            exit,
        })
    }
}

impl Objects<'_> {
    /// Adds the action profiles of a pipeline.
    pub(super) fn load_profiles(&mut self, pipeline: &Value, place: &str) -> Result<()> {
        for value in json::array(pipeline, "action_profiles", place)? {
            let name = json::text(value, "name", place)?;
            json::numbered(self.profiles.len(), "action profiles", name)?;
            let selector = value.get("selector").map(|how| sums::add(&mut self.calculations, how, name, self.layout));
            let (size, tables) = (json::number(value, "max_size", name)? as usize, Vec::new());
            let info = ProfileInfo { name: name.to_owned(), size, selector: selector.is_some(), tables };
            self.profiles.push(info);
            self.selectors.push(selector.transpose()?);
        }
        Ok(())
    }
}

fn list_fields(value: &Value, layout: &Layout, name: &str) -> Result<Vec<Field>> {
    let mut fields = Vec::new();
    for element in json::array(value, "elements", name)? {
        match json::text(element, "type", name)? {
            "field" => fields.push(layout.field_ref(json::member(element, "value", name)?, name)?),
            other => return Err(LoadError::unsupported(format!("a {other} in a field list"), name)),
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
            return Err(LoadError::unsupported("a header field in a clone field list", name));
        }
        lists.insert(json::number(value, "id", name)?, fields);
    }
    Ok(lists)
}

fn load_value_sets(root: &Value) -> Result<Vec<ValueSetInfo>> {
    let mut sets = Vec::new();
    for value in json::array(root, "parse_vsets", "program")? {
        let name = json::text(value, "name", "parse_vsets")?;
        json::numbered(sets.len(), "parser value sets", name)?;
        let size = json::number(value, "max_size", name)? as usize;
        sets.push(ValueSetInfo { name: name.to_owned(), size, widths: Vec::new() });
    }
    Ok(sets)
}

fn load_digests(root: &Value, layout: &Layout) -> Result<Vec<(DigestInfo, Vec<Field>)>> {
    let mut digests = Vec::new();
    for value in json::array(root, "learn_lists", "program")? {
        let name = json::text(value, "name", "learn_lists")?;
        let fields = list_fields(value, layout, name)?;
        let list = json::number(value, "id", name)?;
        let list = u32::try_from(list).map_err(|_| LoadError::malformed(format!("{name}: id {list}")))?;
        if let Some(field) = fields.iter().find(|field| field.width > 128) {
            return Err(LoadError::unsupported(format!("a field of {} bits in a digest (128 are)", field.width), name));
        }
        let widths = fields.iter().map(|f| f.width).collect();
        json::numbered(digests.len(), "digests", name)?;
        digests.push((DigestInfo { list, name: name.to_owned(), widths }, fields));
    }
    Ok(digests)
}
