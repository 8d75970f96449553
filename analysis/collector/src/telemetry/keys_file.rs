// SPDX-License-Identifier: Apache-2.0
//! `flow_keys.parquet`: the 5-tuple of every flow.

use std::path::Path;
use std::sync::Arc;

use arrow_array::{
    ArrayRef, RecordBatch, StringArray, UInt16Array, UInt32Array, UInt64Array, UInt8Array,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use super::parquet_file::ParquetFile;
use super::writer::base_properties;
use crate::error::{Error, Result};
use crate::flow_keys::{FlowId, FlowKey};

/// Name of the table.
pub const FILE_NAME: &str = "flow_keys.parquet";

/// Upper bound of a row: two addresses of at most 45 characters and the numbers.
const ROW_BYTES: usize = 128;
const GROUP_ROWS: usize = 16 << 10;

/// Schema of the table.
pub fn schema() -> SchemaRef {
    let column = |name: &str, data_type| Field::new(name, data_type, false);
    Arc::new(Schema::new(vec![
        column("bottleneck", DataType::UInt8),
        column("flow", DataType::UInt16),
        column("signature", DataType::UInt32),
        column("ip_version", DataType::UInt8),
        column("src", DataType::Utf8),
        column("dst", DataType::Utf8),
        column("protocol", DataType::UInt8),
        column("src_port", DataType::UInt16),
        column("dst_port", DataType::UInt16),
        column("first_timestamp", DataType::UInt64),
    ]))
}

/// Writes `keys` as `directory/flow_keys.parquet`.
///
/// # Errors
/// If the system refuses, a full disk included.
pub fn write(directory: &Path, keys: &[(FlowId, FlowKey)]) -> Result<()> {
    let path = directory.join(FILE_NAME);
    let properties = base_properties().set_max_row_group_size(GROUP_ROWS).build();
    let mut file = ParquetFile::create(&path, schema(), properties, ROW_BYTES)?;
    for part in keys.chunks(GROUP_ROWS) {
        let batch = batch(part).map_err(|e| Error::parquet(&path, e))?;
        if let Err(error) = file.write(&batch) {
            file.discard();
            return Err(error);
        }
    }
    file.close()
}

fn batch(keys: &[(FlowId, FlowKey)]) -> std::result::Result<RecordBatch, arrow_schema::ArrowError> {
    let tuples = || keys.iter().map(|(_, key)| key.tuple);
    let address =
        |tuple: Option<std::net::IpAddr>| tuple.map_or_else(String::new, |a| a.to_string());
    let arrays: Vec<ArrayRef> = vec![
        Arc::new(UInt8Array::from_iter_values(
            keys.iter().map(|(id, _)| id.bottleneck),
        )),
        Arc::new(UInt16Array::from_iter_values(
            keys.iter().map(|(id, _)| id.flow),
        )),
        Arc::new(UInt32Array::from_iter_values(
            keys.iter().map(|(id, _)| id.signature),
        )),
        Arc::new(UInt8Array::from_iter_values(
            keys.iter().map(|(_, key)| key.ip_version),
        )),
        Arc::new(StringArray::from_iter_values(
            tuples().map(|t| address(t.map(|t| t.src))),
        )),
        Arc::new(StringArray::from_iter_values(
            tuples().map(|t| address(t.map(|t| t.dst))),
        )),
        Arc::new(UInt8Array::from_iter_values(
            tuples().map(|t| t.map_or(0, |t| t.protocol)),
        )),
        Arc::new(UInt16Array::from_iter_values(
            tuples().map(|t| t.map_or(0, |t| t.src_port)),
        )),
        Arc::new(UInt16Array::from_iter_values(
            tuples().map(|t| t.map_or(0, |t| t.dst_port)),
        )),
        Arc::new(UInt64Array::from_iter_values(
            keys.iter().map(|(_, key)| key.first_timestamp),
        )),
    ];
    RecordBatch::try_new(schema(), arrays)
}
