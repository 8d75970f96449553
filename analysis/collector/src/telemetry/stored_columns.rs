// SPDX-License-Identifier: Apache-2.0
//! Columns of numbers as they are in a file.

use parquet::basic::LogicalType;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::DataType;
use parquet::file::reader::RowGroupReader;
use parquet::schema::types::ColumnDescriptor;

use super::table::{Kind, Number};

/// Columns of a row group, read side by side.
pub struct StoredColumns {
    columns: Vec<StoredColumn>,
    next: usize,
}

struct StoredColumn {
    name: String,
    kind: String,
    /// Width of whole numbers without a sign; 0 for anything else.
    unsigned_bits: u8,
    nullable: bool,
    reader: ColumnReader,
}

impl StoredColumns {
    /// The columns of a row group.
    ///
    /// # Errors
    /// What is wrong with one of them.
    pub fn open(group: &dyn RowGroupReader) -> std::result::Result<Self, String> {
        let described = group.metadata().schema_descr().columns().iter();
        let columns = described.enumerate().map(|(index, described)| {
            Ok(StoredColumn {
                name: described.path().string(),
                kind: kind_of(described),
                unsigned_bits: unsigned_bits(described),
                nullable: described.max_def_level() > 0,
                reader: group.get_column_reader(index).map_err(|e| e.to_string())?,
            })
        });
        let columns = columns.collect::<std::result::Result<_, String>>()?;
        Ok(StoredColumns { columns, next: 0 })
    }

    /// Whether there is a column of that name.
    pub fn has(&self, name: &str) -> bool {
        self.columns.iter().any(|column| column.name == name)
    }

    /// The next values of a column, up to `most`. A column that was narrower in an earlier version is widened.
    ///
    /// # Errors
    /// What is wrong with the column, by its name.
    pub fn read<T: Number>(&mut self, name: &str, most: usize) -> std::result::Result<Vec<T>, String> {
        // Files have the columns in the order in which they are read.
        let count = self.columns.len();
        let found = (0..count).map(|step| (self.next + step) % count).find(|index| self.columns[*index].name == name);
        let index = found.ok_or_else(|| format!("column {name} is missing"))?;
        self.next = (index + 1) % count;
        let column = &mut self.columns[index];
        let expected = name_of(T::KIND);
        let widens =
            matches!(T::KIND, Kind::Number { bits, signed: false } if (1..bits).contains(&column.unsigned_bits));
        if column.kind != expected && !widens {
            return Err(format!("column {name} is {}, not {expected}", column.kind));
        }
        let values = match &mut column.reader {
            ColumnReader::Int32ColumnReader(reader) => {
                // Unsigned numbers are stored as signed ones.
                let bits = if widens { u32::MAX >> (32 - column.unsigned_bits) } else { u32::MAX };
                let convert = |v: i32| if widens { i64::from(v as u32 & bits) } else { v.into() };
                read(reader, most, column.nullable, |v| T::from_stored(convert(v)))
            }
            ColumnReader::Int64ColumnReader(reader) => read(reader, most, column.nullable, T::from_stored),
            _ => return Err(format!("column {name} holds no numbers")),
        };
        values.map_err(|problem| format!("column {name} {problem}"))
    }
}

fn read<D: DataType, T>(
    reader: &mut ColumnReaderImpl<D>,
    most: usize,
    nullable: bool,
    convert: impl Fn(D::T) -> T,
) -> std::result::Result<Vec<T>, String> {
    let mut values = Vec::with_capacity(most);
    let mut levels = Vec::new();
    let (records, found, _) = reader
        .read_records(most, nullable.then_some(&mut levels), None, &mut values)
        .map_err(|e| format!("cannot be read: {e}"))?;
    if found < records {
        return Err("holds nulls".into());
    }
    Ok(values.into_iter().map(convert).collect())
}

fn kind_of(column: &ColumnDescriptor) -> String {
    match column.logical_type_ref() {
        Some(LogicalType::Integer(integer)) => {
            name_of(Kind::Number { bits: integer.bit_width as u8, signed: integer.is_signed })
        }
        // Numbers are signed unless their type says otherwise.
        None => column.physical_type().to_string(),
        Some(other) => format!("{other:?}"),
    }
}

fn unsigned_bits(column: &ColumnDescriptor) -> u8 {
    match column.logical_type_ref() {
        Some(LogicalType::Integer(integer)) if !integer.is_signed => integer.bit_width as u8,
        _ => 0,
    }
}

fn name_of(kind: Kind) -> String {
    match kind {
        Kind::Number { bits, signed: true } => format!("INT{bits}"),
        Kind::Number { bits, .. } => format!("UINT{bits}"),
        Kind::Text => "text".into(),
        Kind::List { bits } => format!("a list of UINT{bits}"),
    }
}
