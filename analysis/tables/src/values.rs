// SPDX-License-Identifier: Apache-2.0
//! Tables in memory, column by column, and how a Parquet file names and stores them.

use std::sync::Arc;

use parquet::basic::{IntType, LogicalType, Repetition, Type as Stored};
use parquet::errors::Result;
use parquet::schema::types::{Type, TypePtr};

/// What a column contains; no column is nullable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Whole numbers of `bits` bits.
    Number {
        bits: u8,
        signed: bool,
    },
    Text,
    /// Any number of unsigned whole numbers of `bits` bits in every row.
    List {
        bits: u8,
    },
}

/// A column's name and kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    pub name: &'static str,
    pub kind: Kind,
}

/// A type of number in columns.
pub trait Number: Copy {
    const KIND: Kind;
    /// Wraps the values of a column.
    fn column(values: Vec<Self>) -> Values;
    /// The number that a file stores as this.
    fn from_stored(value: i64) -> Self;
}

/// Several numbers in each row: those of row i end at `ends[i]`, where those of row i + 1 begin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lists<T> {
    pub ends: Vec<usize>,
    pub values: Vec<T>,
}

/// The values of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Values {
    U8(Vec<u8>),
    U16(Vec<u16>),
    U32(Vec<u32>),
    U64(Vec<u64>),
    I64(Vec<i64>),
    Text(Vec<String>),
    U8Lists(Lists<u8>),
    U64Lists(Lists<u64>),
}

macro_rules! numbers {
    ($($type:ty, $values:ident, $bits:literal, $signed:literal;)*) => {
        $(impl Number for $type {
            const KIND: Kind = Kind::Number { bits: $bits, signed: $signed };

            fn column(values: Vec<Self>) -> Values {
                Values::$values(values)
            }

            #[inline]
            fn from_stored(value: i64) -> Self {
                value as $type
            }
        })*
    };
}

numbers! {
    u8, U8, 8, false;
    u16, U16, 16, false;
    u32, U32, 32, false;
    u64, U64, 64, false;
    i64, I64, 64, true;
}

impl<T> Lists<T> {
    /// Keeps the first `rows` rows and returns the others.
    fn split_off(&mut self, rows: usize) -> Self {
        let kept = rows.checked_sub(1).map_or(0, |last| self.ends[last]);
        let mut ends = self.ends.split_off(rows);
        ends.iter_mut().for_each(|end| *end -= kept);
        let values = self.values.split_off(kept);
        Lists { ends, values }
    }
}

impl Values {
    /// Number of rows.
    pub fn len(&self) -> usize {
        match self {
            Values::U8(values) => values.len(),
            Values::U16(values) => values.len(),
            Values::U32(values) => values.len(),
            Values::U64(values) => values.len(),
            Values::I64(values) => values.len(),
            Values::Text(values) => values.len(),
            Values::U8Lists(lists) => lists.ends.len(),
            Values::U64Lists(lists) => lists.ends.len(),
        }
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Keeps the first `rows` rows and returns the others.
    pub fn split_off(&mut self, rows: usize) -> Values {
        match self {
            Values::U8(values) => Values::U8(values.split_off(rows)),
            Values::U16(values) => Values::U16(values.split_off(rows)),
            Values::U32(values) => Values::U32(values.split_off(rows)),
            Values::U64(values) => Values::U64(values.split_off(rows)),
            Values::I64(values) => Values::I64(values.split_off(rows)),
            Values::Text(values) => Values::Text(values.split_off(rows)),
            Values::U8Lists(lists) => Values::U8Lists(lists.split_off(rows)),
            Values::U64Lists(lists) => Values::U64Lists(lists.split_off(rows)),
        }
    }
}

fn number(name: &str, bits: u8, is_signed: bool) -> Result<TypePtr> {
    let stored = if bits > 32 { Stored::INT64 } else { Stored::INT32 };
    let logical = LogicalType::Integer(IntType { bit_width: bits as i8, is_signed });
    let builder = Type::primitive_type_builder(name, stored)
        .with_repetition(Repetition::REQUIRED)
        .with_logical_type(Some(logical));
    builder.build().map(Arc::new)
}

fn stored_type(column: &Column) -> Result<TypePtr> {
    match column.kind {
        Kind::Number { bits, signed } => number(column.name, bits, signed),
        Kind::Text => Type::primitive_type_builder(column.name, Stored::BYTE_ARRAY)
            .with_repetition(Repetition::REQUIRED)
            .with_logical_type(Some(LogicalType::String))
            .build()
            .map(Arc::new),
        Kind::List { bits } => {
            let items = Type::group_type_builder("list")
                .with_repetition(Repetition::REPEATED)
                .with_fields(vec![number("item", bits, false)?])
                .build()?;
            Type::group_type_builder(column.name)
                .with_repetition(Repetition::REQUIRED)
                .with_logical_type(Some(LogicalType::List))
                .with_fields(vec![Arc::new(items)])
                .build()
                .map(Arc::new)
        }
    }
}

/// The Parquet schema of a table.
///
/// # Errors
/// None in practice: all kinds can be stored.
pub(crate) fn stored_schema(columns: &[Column]) -> Result<TypePtr> {
    let fields = columns.iter().map(stored_type).collect::<Result<_>>()?;
    Type::group_type_builder("schema").with_fields(fields).build().map(Arc::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_lists_are_split_with_their_values() {
        let lists =
            |ends: &[usize], values: &[u64]| Values::U64Lists(Lists { ends: ends.to_vec(), values: values.to_vec() });
        let mut kept = lists(&[2, 2, 3, 5], &[1, 2, 3, 4, 5]);
        let rest = kept.split_off(3);
        assert_eq!(kept, lists(&[2, 2, 3], &[1, 2, 3]));
        assert_eq!(rest, lists(&[2], &[4, 5]));
        assert_eq!(kept.split_off(0), lists(&[2, 2, 3], &[1, 2, 3]));
        assert!(kept.is_empty());
    }
}
