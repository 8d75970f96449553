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
    width: u32,
    signed: bool,
    bit: u32,
}

#[derive(Debug)]
struct HeaderType {
    fields: Vec<FieldType>,
    bits: u32,
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
        for union in json::array(root, "header_unions", "program")? {
            let name = json::text(union, "name", "header_unions")?;
            let members = layout.members(union, &ids, name)?;
            for &member in &members {
                let others = members.iter().copied().filter(|&other| other != member).collect();
                layout.rivals.insert(member, others);
            }
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
        let made = if json::flag(instance, "metadata") {
            let mut slots = Vec::with_capacity(header_type.fields.len());
            for field in &header_type.fields {
                let used = if field.width > 64 { 2 } else { 1 };
                slots.push(take(&mut self.metadata_slots, used, name)?);
            }
            Instance::Metadata(slots)
        } else {
            if self.headers.len() == MAX_HEADERS {
                return Err(LoadError::unsupported(format!("more than {MAX_HEADERS} headers"), name));
            }
            if header_type.bits % 8 != 0 {
                return Err(LoadError::malformed(format!("{name}: {} bits are not whole bytes", header_type.bits)));
            }
            if header_type.bits > 8 * 1024 {
                return Err(LoadError::unsupported("a header of more than 1,024 bytes", name));
            }
            self.headers.push(Header { bytes: header_type.bits / 8 });
            Instance::Header((self.headers.len() - 1) as u8)
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
        Ok(Field { place: Place::Header { header, bit: field.bit }, width: field.width, signed: field.signed })
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
        let place = match instance {
            Instance::Header(header) => Place::Header { header: *header, bit: found.bit },
            Instance::Metadata(slots) => Place::Slot(slots[index]),
        };
        Ok(Field { place, width: found.width, signed: found.signed })
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
        let mut fields = Vec::new();
        let mut bits = 0u32;
        for field in json::array(value, "fields", name)? {
            let parts = field.as_array().map_or(&[][..], Vec::as_slice);
            let [field_name, width, rest @ ..] = parts else {
                return Err(LoadError::malformed(format!("header type {name}: a field is not a pair")));
            };
            let field_name = json::as_text(field_name, name)?;
            let place = format!("{name}.{field_name}");
            if width.as_str() == Some("*") {
                return Err(LoadError::unsupported("a varbit field", place));
            }
            let width = json::as_number(width, &place)?;
            if width == 0 || width > u64::from(MAX_WIDTH) {
                return Err(LoadError::unsupported(format!("a field of {width} bits (1 to {MAX_WIDTH} are)"), place));
            }
            let signed = rest.first().and_then(Value::as_bool).unwrap_or(false);
            fields.push(FieldType { name: field_name.to_owned(), width: width as u32, signed, bit: bits });
            bits = bits.saturating_add(width as u32);
        }
        types.insert(name.to_owned(), HeaderType { fields, bits });
    }
    Ok(types)
}
