// SPDX-License-Identifier: Apache-2.0
//! `flow_keys.parquet`: the 5-tuple of every flow.

use std::net::IpAddr;
use std::path::Path;

use narrows_tables::table_file::{Layout, ParquetFile};
use narrows_tables::values::{Column, Kind, Number, Values};

use super::writer::described;
use crate::error::Result;
use crate::flow_keys::{FlowId, FlowKey};

/// Name of the table.
pub const FILE_NAME: &str = "flow_keys.parquet";

/// Upper bound of a row: two addresses of at most 45 characters and the numbers.
const ROW_BYTES: usize = 128;
const GROUP_ROWS: usize = 16 << 10;
/// As [`super::columns::DESCRIPTIONS`].
const DESCRIPTIONS: &str = include_str!("../../../narrows_formats/flow_keys.columns.json");

/// Columns of the table.
pub fn columns() -> Vec<Column> {
    let column = |name, kind| Column { name, kind };
    vec![
        column("bottleneck", u8::KIND),
        column("flow", u16::KIND),
        column("signature", u32::KIND),
        column("ip_version", u8::KIND),
        column("src", Kind::Text),
        column("dst", Kind::Text),
        column("protocol", u8::KIND),
        column("src_port", u16::KIND),
        column("dst_port", u16::KIND),
        column("first_timestamp", u64::KIND),
    ]
}

/// Writes `keys` as `directory/flow_keys.parquet`.
///
/// # Errors
/// If the system refuses, a full disk included.
pub fn write(directory: &Path, keys: &[(FlowId, FlowKey)]) -> Result<()> {
    let path = directory.join(FILE_NAME);
    let layout =
        Layout { row_bytes: ROW_BYTES, group_rows: GROUP_ROWS, slowly_growing: &[], metadata: described(DESCRIPTIONS) };
    let mut file = ParquetFile::create(&path, &columns(), layout)?;
    for part in keys.chunks(GROUP_ROWS) {
        if let Err(error) = file.write(values(part)) {
            file.discard();
            return Err(error.into());
        }
    }
    Ok(file.close()?)
}

fn values(keys: &[(FlowId, FlowKey)]) -> Vec<Values> {
    let tuples = || keys.iter().map(|(_, key)| key.tuple);
    let address = |address: Option<IpAddr>| address.map_or_else(String::new, |a| a.to_string());
    vec![
        Values::U8(keys.iter().map(|(id, _)| id.bottleneck).collect()),
        Values::U16(keys.iter().map(|(id, _)| id.flow).collect()),
        Values::U32(keys.iter().map(|(id, _)| id.signature).collect()),
        Values::U8(keys.iter().map(|(_, key)| key.ip_version).collect()),
        Values::Text(tuples().map(|t| address(t.map(|t| t.src))).collect()),
        Values::Text(tuples().map(|t| address(t.map(|t| t.dst))).collect()),
        Values::U8(tuples().map(|t| t.map_or(0, |t| t.protocol)).collect()),
        Values::U16(tuples().map(|t| t.map_or(0, |t| t.src_port)).collect()),
        Values::U16(tuples().map(|t| t.map_or(0, |t| t.dst_port)).collect()),
        Values::U64(keys.iter().map(|(_, key)| key.first_timestamp).collect()),
    ]
}
