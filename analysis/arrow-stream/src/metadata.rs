// SPDX-License-Identifier: Apache-2.0
//! The metadata of a stream's messages, as FlatBuffers: tables, fields and numbers are those of Schema.fbs and Message.fbs in the
//! Arrow columnar format 1.x.

use flatbuffers::{FlatBufferBuilder, Push, TableFinishedWIPOffset, VOffsetT, WIPOffset};

/// `MetadataVersion.V5`, of Arrow 1.0 and later.
const VERSION: i16 = 4;
/// `MessageHeader.Schema`.
const SCHEMA: u8 = 1;
/// `MessageHeader.RecordBatch`.
const RECORD_BATCH: u8 = 3;
/// `Type.Int`.
const INT: u8 = 2;

type Table = WIPOffset<TableFinishedWIPOffset>;

/// A column of unsigned whole numbers without nulls.
pub struct Field {
    pub name: &'static str,
    pub bits: u8,
    pub unit: Option<String>,
}

/// Where a column's values are in a message's body.
#[derive(Clone, Copy)]
pub struct Extent {
    pub offset: usize,
    pub bytes: usize,
}

/// A struct of two numbers: `FieldNode` and `Buffer` are such.
#[repr(C)]
struct Pair(i64, i64);

impl Push for Pair {
    type Output = Pair;

    unsafe fn push(&self, to: &mut [u8], _: usize) {
        to[..8].copy_from_slice(&self.0.to_le_bytes());
        to[8..16].copy_from_slice(&self.1.to_le_bytes());
    }
}

/// The place of a table's field, by its number in the definition.
const fn slot(number: VOffsetT) -> VOffsetT {
    4 + 2 * number
}

/// The metadata of the message that a stream begins with.
pub fn schema(fields: &[Field]) -> Vec<u8> {
    let mut builder = FlatBufferBuilder::new();
    let fields: Vec<Table> = fields.iter().map(|each| field(&mut builder, each)).collect();
    let fields = builder.create_vector(&fields);
    let table = builder.start_table();
    builder.push_slot_always(slot(1), fields);
    let header = builder.end_table(table);
    message(builder, SCHEMA, header, 0)
}

fn field(builder: &mut FlatBufferBuilder, field: &Field) -> Table {
    let name = builder.create_string(field.name);
    let table = builder.start_table();
    builder.push_slot_always(slot(0), i32::from(field.bits));
    let number = builder.end_table(table);
    let metadata: Vec<Table> = field.unit.iter().map(|unit| key_value(builder, "unit", unit)).collect();
    let metadata = builder.create_vector(&metadata);
    // Readers expect them, also where a type has none.
    let children = builder.create_vector::<Table>(&[]);
    let table = builder.start_table();
    builder.push_slot_always(slot(0), name);
    builder.push_slot_always(slot(2), INT);
    builder.push_slot_always(slot(3), number);
    builder.push_slot_always(slot(5), children);
    builder.push_slot_always(slot(6), metadata);
    builder.end_table(table)
}

fn key_value(builder: &mut FlatBufferBuilder, key: &str, value: &str) -> Table {
    let (key, value) = (builder.create_string(key), builder.create_string(value));
    let table = builder.start_table();
    builder.push_slot_always(slot(0), key);
    builder.push_slot_always(slot(1), value);
    builder.end_table(table)
}

/// The metadata of a message whose body has so many rows of each column, at these places.
pub fn batch(rows: usize, columns: &[Extent], body_bytes: usize) -> Vec<u8> {
    let mut builder = FlatBufferBuilder::new();
    let nodes: Vec<Pair> = columns.iter().map(|_| Pair(rows as i64, 0)).collect();
    let nodes = builder.create_vector(&nodes);
    // Two of each column: which values are null (left out: none is), and the values.
    let buffers: Vec<Pair> = columns
        .iter()
        .flat_map(|column| [Pair(column.offset as i64, 0), Pair(column.offset as i64, column.bytes as i64)])
        .collect();
    let buffers = builder.create_vector(&buffers);
    let table = builder.start_table();
    builder.push_slot_always(slot(0), rows as i64);
    builder.push_slot_always(slot(1), nodes);
    builder.push_slot_always(slot(2), buffers);
    let header = builder.end_table(table);
    message(builder, RECORD_BATCH, header, body_bytes)
}

fn message(mut builder: FlatBufferBuilder, kind: u8, header: Table, body_bytes: usize) -> Vec<u8> {
    let table = builder.start_table();
    builder.push_slot_always(slot(3), body_bytes as i64);
    builder.push_slot_always(slot(2), header);
    builder.push_slot_always(slot(0), VERSION);
    builder.push_slot_always(slot(1), kind);
    let root = builder.end_table(table);
    builder.finish_minimal(root);
    builder.finished_data().to_vec()
}
