// SPDX-License-Identifier: Apache-2.0
//! Telemetry on disk: Parquet files of reports, the table of flow keys and the collector's account.

pub mod account;
pub mod columns;
pub mod drops_file;
pub mod fields_file;
pub mod keys_file;
pub mod observer;
pub mod reader;
pub mod rows_file;
pub mod sink;
pub mod writer;
