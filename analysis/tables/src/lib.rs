// SPDX-License-Identifier: Apache-2.0
//! Tables in Parquet files.
//!
//! [`values`] are tables in memory, column by column. [`table_file`] writes them, [`stored_table`] reads them again.
//! [`new_file`] has what any file needs that is to be seen complete or not at all.

mod error;
pub mod new_file;
pub mod stored_table;
pub mod table_file;
pub mod values;

pub use error::{Error, Result};
