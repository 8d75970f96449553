// SPDX-License-Identifier: Apache-2.0
//! The report layout in Rust against the compiled program and against the page that documents it.
#![allow(clippy::unwrap_used)] // a failed expectation is a failed test

use std::fs;
use std::path::PathBuf;

use narrows_collector::wire::report::{self, FIELDS, REPORT_BYTES};

fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(repository().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

#[test]
fn the_layout_is_that_of_the_compiled_program() {
    let program: serde_json::Value = serde_json::from_str(&read("p4src/compiled/v1model/narrows.json")).unwrap();
    let headers = program["header_types"].as_array().unwrap();
    let report = headers.iter().find(|header| header["name"] == "report_t").expect("no header type report_t");
    let compiled: Vec<(String, usize)> = report["fields"]
        .as_array()
        .unwrap()
        .iter()
        .map(|field| (field[0].as_str().unwrap().to_string(), field[1].as_u64().unwrap() as usize))
        .collect();
    let ours: Vec<(String, usize)> = FIELDS.iter().map(|field| (field.name.to_string(), field.width)).collect();
    assert_eq!(ours, compiled);
    let mut offset = 0;
    for field in FIELDS {
        assert_eq!(field.offset, offset, "{}", field.name);
        offset += field.width;
    }
    assert_eq!(offset, REPORT_BYTES * 8);
}

#[test]
fn version_and_flags_are_those_of_the_program() {
    let sources = read("p4src/common/constants.p4") + &read("p4src/common/headers.p4");
    let constant = |name: &str| {
        let line = sources.lines().find(|line| line.contains(&format!("> {name} =")));
        let line = line.unwrap_or_else(|| panic!("{name} is not in the program"));
        let value = line.split('=').nth(1).unwrap().split(';').next().unwrap().trim();
        let hexadecimal = value.strip_prefix("0x").map(|digits| u8::from_str_radix(digits, 16));
        hexadecimal.unwrap_or_else(|| value.parse()).unwrap()
    };
    assert_eq!(constant("REPORT_VERSION"), report::VERSION);
    assert_eq!(constant("FLAG_CE_MARKED"), report::FLAG_CE_MARKED);
    assert_eq!(constant("FLAG_COLLISION"), report::FLAG_COLLISION);
    assert_eq!(constant("FLAG_NOT_IP"), report::FLAG_NOT_IP);
}

#[test]
fn the_documented_table_is_the_layout() {
    let page = read("docs/report-format.md");
    // | offset | width | `field` | unit | meaning |
    let rows: Vec<Vec<String>> = page
        .lines()
        .filter(|line| line.starts_with('|'))
        .map(|line| line.trim_matches('|').split('|').map(|cell| cell.trim().to_string()).collect())
        .filter(|cells: &Vec<String>| cells.len() == 5 && cells[0].parse::<usize>().is_ok())
        .collect();
    let documented: Vec<(usize, usize, String)> = rows
        .iter()
        .map(|cells| (cells[0].parse().unwrap(), cells[1].parse().unwrap(), cells[2].trim_matches('`').to_string()))
        .collect();
    let ours: Vec<(usize, usize, String)> =
        FIELDS.iter().map(|field| (field.offset / 8, field.width / 8, field.name.to_string())).collect();
    assert_eq!(documented, ours);
    assert!(rows.iter().all(|cells| !cells[3].is_empty() && !cells[4].is_empty()));
}
