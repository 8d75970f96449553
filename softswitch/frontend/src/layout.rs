// SPDX-License-Identifier: Apache-2.0
//! The program's headers, metadata and their fields, by name.

use std::collections::HashMap;

use narrows_program::field::{Field, Place, Slot, MAX_HEADERS, MAX_WIDTH};
use serde_json::Value;

use crate::error::LoadError;
use crate::json;

#[derive(Debug)]
struct FieldType {
    name: String,
    /// 0: a varbit.
    width: u32,
    signed: bool,
    /// From the start of the header, or from the end of its varbit.
    bit: u32,
    is_behind: bool,
}

#[derive(Debug, Default)]
struct HeaderType {
    fields: Vec<FieldType>,
    /// In front of the varbit, if there is one.
    bits: u32,
    varbit: Option<VarbitType>,
}

#[derive(Debug)]
struct VarbitType {
    most_bytes: u32,
    bits_behind: u32,
}

/// A header or metadata instance.
#[derive(Debug)]
enum Instance {
    Header(u8),
    /// First slot of each field.
    Metadata(Vec<Slot>),
}

/// A packet header of the program.
#[derive(Debug, Clone)]
pub(crate) struct Header {
    pub bytes: u32,
}

/// The varbit of a header, which is a header of its own for each power of two in its length: 5 bytes are one of 4 and one of 1. So
/// every header has one length, and the rest of the switch knows no others.
#[derive(Debug)]
pub(crate) struct Varbit {
    /// From the longest to the shortest; together they hold any length up to `most_bytes`.
    pub parts: Vec<u8>,
    pub most_bytes: u32,
    /// Fields behind it.
    pub behind: Option<u8>,
    /// It is a variable of the program, and leaves with no packet.
    pub is_metadata: bool,
}

/// A header stack.
#[derive(Debug, Clone)]
pub(crate) struct Stack {
    /// Its elements.
    pub headers: Vec<u8>,
    /// Metadata: how many elements were extracted, which is the number of the next one.
    pub next: Slot,
}

/// All fields of a program.
#[derive(Debug)]
pub(crate) struct Layout {
    types: HashMap<String, HeaderType>,
    instances: HashMap<String, (String, Instance)>,
    /// Packet headers, by index.
    pub headers: Vec<Header>,
    aliases: HashMap<String, (String, String)>,
    stacks: HashMap<String, Stack>,
    /// For each header that is a member of a union, the others, of which none is valid while it is.
    rivals: HashMap<u8, Vec<u8>>,
    unions: HashMap<String, Vec<u8>>,
    /// The names of their unions, and the number of the next one.
    union_stacks: HashMap<String, (Vec<String>, Slot)>,
    /// By the header that has the fields in front of it.
    varbits: HashMap<u8, Varbit>,
    /// Slots that metadata occupies: 0..metadata_slots.
    pub metadata_slots: Slot,
}

impl Layout {
    pub(crate) fn load(root: &Value) -> Result<Self, LoadError> {
        let mut layout = Self {
            types: load_types(root)?,
            instances: HashMap::new(),
            headers: Vec::new(),
            aliases: HashMap::new(),
            stacks: HashMap::new(),
            rivals: HashMap::new(),
            unions: HashMap::new(),
            union_stacks: HashMap::new(),
            varbits: HashMap::new(),
            metadata_slots: 0,
        };
        let mut ids = HashMap::new();
        for instance in json::array(root, "headers", "program")? {
            layout.add_instance(instance)?;
            let name = json::text(instance, "name", "headers")?;
            ids.insert(json::number(instance, "id", name)?, name);
        }
        for stack in json::array(root, "header_stacks", "program")? {
            let name = json::text(stack, "name", "header_stacks")?;
            let headers = layout.members(stack, &ids, name)?;
            let next = layout.allocate(1, name)?;
            layout.stacks.insert(name.to_owned(), Stack { headers, next });
        }
        let mut union_ids = HashMap::new();
        for union in json::array(root, "header_unions", "program")? {
            let name = json::text(union, "name", "header_unions")?;
            let members = layout.members(union, &ids, name)?;
            for &member in &members {
                let others = members.iter().copied().filter(|&other| other != member).collect();
                layout.rivals.insert(member, others);
            }
            union_ids.insert(json::number(union, "id", name)?, name);
            layout.unions.insert(name.to_owned(), members);
        }
        for stack in json::array(root, "header_union_stacks", "program")? {
            let name = json::text(stack, "name", "header_union_stacks")?;
            let mut unions = Vec::new();
            for id in json::array(stack, "header_union_ids", name)? {
                let id = json::as_number(id, name)?;
                let union = union_ids.get(&id);
                let union =
                    union.ok_or_else(|| LoadError::malformed(format!("{name}: no header union with id {id}")))?;
                unions.push((*union).to_owned());
            }
            let next = layout.allocate(1, name)?;
            layout.union_stacks.insert(name.to_owned(), (unions, next));
        }
        for alias in json::array(root, "field_aliases", "program")? {
            let (name, target) = json::pair(alias, "field_aliases")?;
            let (header, field) = json::pair(target, "field_aliases")?;
            let text = |v| json::as_text(v, "field_aliases").map(str::to_owned);
            layout.aliases.insert(text(name)?, (text(header)?, text(field)?));
        }
        Ok(layout)
    }

    fn add_instance(&mut self, instance: &Value) -> Result<(), LoadError> {
        let name = json::text(instance, "name", "headers")?;
        let type_name = json::text(instance, "header_type", name)?;
        let header_type = self
            .types
            .get(type_name)
            .ok_or_else(|| LoadError::malformed(format!("{name}: no header type {type_name}")))?;
        let is_metadata = json::flag(instance, "metadata");
        let made = if let Some(varbit) = &header_type.varbit {
            if is_metadata && header_type.fields.len() > 1 {
                return Err(LoadError::unsupported("metadata with a varbit among other fields", name));
            }
            let header = add_header(&mut self.headers, header_type.bits, name)?;
            let mut parts = Vec::new();
            for power in (0..=varbit.most_bytes.checked_ilog2().unwrap_or(0)).rev() {
                parts.push(add_header(&mut self.headers, 8 << power, name)?);
            }
            let behind = match varbit.bits_behind {
                0 => None,
                bits => Some(add_header(&mut self.headers, bits, name)?),
            };
            self.varbits.insert(header, Varbit { parts, most_bytes: varbit.most_bytes, behind, is_metadata });
            Instance::Header(header)
        } else if is_metadata {
            let mut slots = Vec::with_capacity(header_type.fields.len());
            for field in &header_type.fields {
                let used = field.width.div_ceil(64) as Slot;
                slots.push(take(&mut self.metadata_slots, used, name)?);
            }
            Instance::Metadata(slots)
        } else {
            Instance::Header(add_header(&mut self.headers, header_type.bits, name)?)
        };
        self.instances.insert(name.to_owned(), (type_name.to_owned(), made));
        Ok(())
    }

    fn allocate(&mut self, slots: Slot, name: &str) -> Result<Slot, LoadError> {
        take(&mut self.metadata_slots, slots, name)
    }

    /// The headers that a stack or a union names by their ids.
    fn members(&self, value: &Value, ids: &HashMap<u64, &str>, name: &str) -> Result<Vec<u8>, LoadError> {
        let mut members = Vec::new();
        for id in json::array(value, "header_ids", name)? {
            let id = json::as_number(id, name)?;
            let member = ids.get(&id).ok_or_else(|| LoadError::malformed(format!("{name}: no header with id {id}")))?;
            members.push(self.header(member, name)?);
        }
        Ok(members)
    }

    /// The header stack with this name.
    pub(crate) fn stack(&self, name: &str, place: &str) -> Result<&Stack, LoadError> {
        self.stacks.get(name).ok_or_else(|| LoadError::malformed(format!("{place}: no header stack {name}")))
    }

    /// The headers that are invalid when this one becomes valid: the other members of its union.
    pub(crate) fn rivals(&self, header: u8) -> &[u8] {
        self.rivals.get(&header).map_or(&[][..], Vec::as_slice)
    }

    /// The members of the union with this name.
    pub(crate) fn union(&self, name: &str, place: &str) -> Result<&[u8], LoadError> {
        let found =
            self.unions.get(name).ok_or_else(|| LoadError::malformed(format!("{place}: no header union {name}")));
        found.map(Vec::as_slice)
    }

    /// One member of each union of a stack, as a stack of headers.
    pub(crate) fn union_stack(&self, name: &str, member: &str, place: &str) -> Result<Stack, LoadError> {
        let found = self.union_stacks.get(name);
        let (unions, next) =
            found.ok_or_else(|| LoadError::malformed(format!("{place}: no stack of header unions {name}")))?;
        let headers = unions.iter().map(|union| self.header(&format!("{union}.{member}"), place));
        Ok(Stack { headers: headers.collect::<Result<_, _>>()?, next: *next })
    }

    /// The varbit of a header, if it has one.
    pub(crate) fn varbit(&self, header: u8) -> Option<&Varbit> {
        self.varbits.get(&header)
    }

    /// All that a header consists of, in the order in which it leaves.
    pub(crate) fn parts(&self, header: u8) -> impl Iterator<Item = u8> + '_ {
        let varbit = self.varbit(header);
        let parts = varbit.into_iter().flat_map(|varbit| varbit.parts.iter().chain(&varbit.behind).copied());
        std::iter::once(header).chain(parts)
    }

    /// The header whose varbit a JSON value (`{"type": "field", "value": [header, field]}`) is.
    pub(crate) fn varbit_owner(&self, value: &Value) -> Option<u8> {
        let (header, field) =
            json::pair(value.get("value")?, "").ok().filter(|_| json::text(value, "type", "") == Ok("field"))?;
        let (type_name, Instance::Header(index)) = self.instances.get(header.as_str()?)? else {
            return None;
        };
        let found = self.types[type_name].fields.iter().find(|found| Some(found.name.as_str()) == field.as_str());
        found.filter(|found| found.width == 0).map(|_| *index)
    }

    /// A field of an element of a stack.
    pub(crate) fn element_field(&self, header: u8, field: &str, place: &str) -> Result<Field, LoadError> {
        let found =
            self.instances.iter().find(|(_, (_, instance))| matches!(instance, Instance::Header(h) if *h == header));
        let (name, _) = found.ok_or_else(|| LoadError::malformed(format!("{place}: no header {header}")))?;
        self.field(name, field, place)
    }

    /// A field of a header by its number.
    pub(crate) fn numbered_field(&self, header: u8, number: u64, place: &str) -> Result<Field, LoadError> {
        let types =
            self.instances.values().find(|(_, instance)| matches!(instance, Instance::Header(h) if *h == header));
        let fields = types.and_then(|(name, _)| self.types.get(name)).map_or(&[][..], |found| &found.fields[..]);
        let field = usize::try_from(number).ok().and_then(|number| fields.get(number));
        let field = field.ok_or_else(|| LoadError::malformed(format!("{place}: no field {number}")))?;
        self.header_field(header, field, place)
    }

    fn header_field(&self, header: u8, field: &FieldType, place: &str) -> Result<Field, LoadError> {
        let FieldType { width, signed, bit, is_behind, .. } = *field;
        if width == 0 {
            return Err(LoadError::unsupported(format!("the varbit field {} as a number", field.name), place));
        }
        let behind = self.varbit(header).and_then(|varbit| varbit.behind).filter(|_| is_behind);
        Ok(Field { place: Place::Header { header: behind.unwrap_or(header), bit }, width, signed })
    }

    /// The packet header with this name.
    pub(crate) fn header(&self, name: &str, place: &str) -> Result<u8, LoadError> {
        match self.instances.get(name) {
            Some((_, Instance::Header(index))) => Ok(*index),
            Some(_) => Err(LoadError::unsupported(format!("metadata {name} used as a header"), place)),
            None => Err(LoadError::malformed(format!("{place}: no header {name}"))),
        }
    }

    /// True if both headers have the same type.
    pub(crate) fn same_type(&self, a: &str, b: &str) -> bool {
        matches!((self.instances.get(a), self.instances.get(b)), (Some(x), Some(y)) if x.0 == y.0)
    }

    /// The fields of a metadata instance; `None` if the name is something else.
    pub(crate) fn metadata_fields(&self, name: &str) -> Option<Vec<Field>> {
        let (type_name, Instance::Metadata(slots)) = self.instances.get(name)? else {
            return None;
        };
        let fields = self.types.get(type_name)?.fields.iter().zip(slots);
        Some(fields.map(|(f, &slot)| Field { place: Place::Slot(slot), width: f.width, signed: f.signed }).collect())
    }

    /// The field `header.field`.
    pub(crate) fn field(&self, header: &str, field: &str, place: &str) -> Result<Field, LoadError> {
        let missing = || LoadError::malformed(format!("{place}: no field {header}.{field}"));
        let (type_name, instance) = self.instances.get(header).ok_or_else(missing)?;
        if field == "$valid$" {
            let Instance::Header(index) = instance else {
                return Err(missing());
            };
            return Ok(Field { place: Place::Valid(*index), width: 1, signed: false });
        }
        let fields = &self.types[type_name].fields;
        let index = fields.iter().position(|f| f.name == field).ok_or_else(missing)?;
        let found = &fields[index];
        match instance {
            Instance::Header(header) => self.header_field(*header, found, place),
            Instance::Metadata(slots) => {
                Ok(Field { place: Place::Slot(slots[index]), width: found.width, signed: found.signed })
            }
        }
    }

    /// A JSON reference `["header", "field"]`.
    pub(crate) fn field_ref(&self, value: &Value, place: &str) -> Result<Field, LoadError> {
        let (header, field) = json::pair(value, place)?;
        self.field(json::as_text(header, place)?, json::as_text(field, place)?, place)
    }

    /// The field that the architecture calls `name` (`header.field`), by alias or by its own name.
    pub(crate) fn intrinsic(&self, name: &str) -> Option<Field> {
        match self.aliases.get(name) {
            Some((header, field)) => self.field(header, field, name).ok(),
            None => {
                let (header, field) = name.split_once('.')?;
                self.field(header, field, name).ok()
            }
        }
    }

    /// The metadata slot of such a field.
    pub(crate) fn intrinsic_slot(&self, name: &str) -> Option<Slot> {
        match self.intrinsic(name)?.place {
            Place::Slot(slot) => Some(slot),
            _ => None,
        }
    }
}

/// One more header, of a type with so many bits.
fn add_header(headers: &mut Vec<Header>, bits: u32, name: &str) -> Result<u8, LoadError> {
    if headers.len() == MAX_HEADERS {
        return Err(LoadError::unsupported(format!("more than {MAX_HEADERS} headers"), name));
    }
    if bits % 8 != 0 {
        return Err(LoadError::malformed(format!("{name}: {bits} bits are not whole bytes")));
    }
    if bits > 8 * 1024 {
        return Err(LoadError::unsupported("a header of more than 1,024 bytes", name));
    }
    headers.push(Header { bytes: bits / 8 });
    Ok((headers.len() - 1) as u8)
}

/// The next `count` words of metadata.
fn take(used: &mut Slot, count: Slot, name: &str) -> Result<Slot, LoadError> {
    let first = *used;
    let next = first.checked_add(count).filter(|&s| s < 1 << 14);
    *used = next.ok_or_else(|| LoadError::unsupported("more than 16,384 words of metadata", name))?;
    Ok(first)
}

fn load_types(root: &Value) -> Result<HashMap<String, HeaderType>, LoadError> {
    let mut types = HashMap::new();
    for value in json::array(root, "header_types", "program")? {
        let name = json::text(value, "name", "header_types")?;
        let mut header_type = HeaderType::default();
        for field in json::array(value, "fields", name)? {
            let parts = field.as_array().map_or(&[][..], Vec::as_slice);
            let [field_name, width, rest @ ..] = parts else {
                return Err(LoadError::malformed(format!("header type {name}: a field is not a pair")));
            };
            let field_name = json::as_text(field_name, name)?;
            let place = format!("{name}.{field_name}");
            let name = field_name.to_owned();
            if width.as_str() == Some("*") {
                if header_type.varbit.is_some() {
                    return Err(LoadError::malformed(format!("{place}: a second varbit field")));
                }
                header_type.varbit = Some(VarbitType { most_bytes: 0, bits_behind: 0 });
                header_type.fields.push(FieldType { name, width: 0, signed: false, bit: 0, is_behind: false });
                continue;
            }
            let width = json::as_number(width, &place)?;
            if width == 0 || width > u64::from(MAX_WIDTH) {
                return Err(LoadError::unsupported(format!("a field of {width} bits (1 to {MAX_WIDTH} are)"), place));
            }
            let signed = rest.first().and_then(Value::as_bool).unwrap_or(false);
            let is_behind = header_type.varbit.is_some();
            let bits = match &mut header_type.varbit {
                Some(varbit) => &mut varbit.bits_behind,
                None => &mut header_type.bits,
            };
            header_type.fields.push(FieldType { name, width: width as u32, signed, bit: *bits, is_behind });
            *bits = bits.saturating_add(width as u32);
        }
        if let Some(varbit) = &mut header_type.varbit {
            let fixed = u64::from(header_type.bits) + u64::from(varbit.bits_behind);
            let most = json::number(value, "max_length", name)?;
            let most = most.checked_sub(fixed / 8).filter(|most| (1..=1024).contains(most));
            let most =
                most.ok_or_else(|| LoadError::unsupported("a varbit of this length (1 to 1,024 bytes are)", name))?;
            varbit.most_bytes = most as u32;
        }
        types.insert(name.to_owned(), header_type);
    }
    Ok(types)
}
