// SPDX-License-Identifier: Apache-2.0
//! Columns of numbers as they are in a file.

use std::fs::File;

use parquet::basic::LogicalType;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::DataType;
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use parquet::schema::types::ColumnDescriptor;

use crate::values::{Kind, Number};

/// A table in a file, row group by row group.
pub struct StoredTable {
    reader: SerializedFileReader<File>,
}

impl StoredTable {
    /// The table in a file.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn open(file: File) -> std::result::Result<Self, String> {
        let reader = SerializedFileReader::new(file).map_err(|e| e.to_string())?;
        Ok(StoredTable { reader })
    }

    /// Number of row groups.
    pub fn groups(&self) -> usize {
        self.reader.num_row_groups()
    }

    /// The columns of a row group.
    ///
    /// # Errors
    /// What is wrong with it or one of them.
    pub fn group(&self, index: usize) -> std::result::Result<StoredColumns, String> {
        let group = self.reader.get_row_group(index).map_err(|e| e.to_string())?;
        StoredColumns::open(&*group)
    }
}

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
    fn open(group: &dyn RowGroupReader) -> std::result::Result<Self, String> {
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
        Ok(match self.stored(name, T::KIND, most)? {
            Stored::Narrow(values) => values.into_iter().map(|v| T::from_stored(v.into())).collect(),
            Stored::Widened(values, bits) => {
                values.into_iter().map(|v| T::from_stored((v as u32 & bits).into())).collect()
            }
            Stored::Wide(values) => values.into_iter().map(T::from_stored).collect(),
        })
    }

    /// The next values of a column, in whose place [`Self::read`] puts those of another type.
    fn stored(&mut self, name: &str, kind: Kind, most: usize) -> std::result::Result<Stored, String> {
        // Files have the columns in the order in which they are read.
        let count = self.columns.len();
        let found = (0..count).map(|step| (self.next + step) % count).find(|index| self.columns[*index].name == name);
        let index = found.ok_or_else(|| format!("column {name} is missing"))?;
        self.next = (index + 1) % count;
        let column = &mut self.columns[index];
        let expected = name_of(kind);
        let widens = matches!(kind, Kind::Number { bits, signed: false } if (1..bits).contains(&column.unsigned_bits));
        if column.kind != expected && !widens {
            return Err(format!("column {name} is {}, not {expected}", column.kind));
        }
        let values = match &mut column.reader {
            ColumnReader::Int32ColumnReader(reader) => read(reader, most, column.nullable).map(|values| match widens {
                true => Stored::Widened(values, u32::MAX >> (32 - column.unsigned_bits)),
                false => Stored::Narrow(values),
            }),
            ColumnReader::Int64ColumnReader(reader) => read(reader, most, column.nullable).map(Stored::Wide),
            _ => return Err(format!("column {name} holds no numbers")),
        };
        values.map_err(|problem| format!("column {name} {problem}"))
    }
}

/// Values as a file stores them: unsigned numbers as signed ones of the same bits.
enum Stored {
    Narrow(Vec<i32>),
    /// And the bits that are theirs, of unsigned numbers that become wider ones.
    Widened(Vec<i32>, u32),
    Wide(Vec<i64>),
}

fn read<D: DataType>(
    reader: &mut ColumnReaderImpl<D>,
    most: usize,
    nullable: bool,
) -> std::result::Result<Vec<D::T>, String> {
    let mut values = Vec::with_capacity(most);
    let mut levels = Vec::new();
    let (records, found, _) = reader
        .read_records(most, nullable.then_some(&mut levels), None, &mut values)
        .map_err(|e| format!("cannot be read: {e}"))?;
    match found < records {
        true => Err("holds nulls".into()),
        false => Ok(values),
    }
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
