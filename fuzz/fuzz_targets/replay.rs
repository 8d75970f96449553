// SPDX-License-Identifier: Apache-2.0
//! Captures through the switch in virtual time: refused with a reason, or every frame of them is accounted for.
#![no_main]

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use clap::Parser;
use libfuzzer_sys::fuzz_target;
use narrows_fuzz::common::program;
use narrows_replay::{run, ReplayArgs};
use serde_json::{json, Value};

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    replay: ReplayArgs,
}

/// A directory with a program that sends everything to port 1, and the switch's configuration.
static PLACE: LazyLock<PathBuf> = LazyLock::new(|| {
    let place = std::env::temp_dir().join(format!("narrows-fuzz-{}", std::process::id()));
    fs::create_dir_all(&place).expect("a directory");
    fs::write(place.join("program.json"), program(json!([]), json!([])).to_string()).expect("a file");
    let config = json!({
        "program": "program.json",
        "ports": [1, 2],
        "pool_packets": 64,
        "queues": [{"port": 1, "rate_bps": 1_000_000, "limit_bytes": 3_000, "delay_ns": 1_000_000}],
        "inputs": [{"port": 2, "pcap": "capture"}],
        "outputs": [{"port": 1, "pcap": "left.pcap", "snap_bytes": 60}],
    });
    fs::write(place.join("config.json"), config.to_string()).expect("a file");
    place
});

fuzz_target!(|bytes: &[u8]| {
    fs::write(PLACE.join("capture"), bytes).expect("a file");
    let (config, out) = (PLACE.join("config.json"), PLACE.join("out"));
    let words = ["replay".as_ref(), "--config".as_ref(), config.as_os_str(), "--out".as_ref(), out.as_os_str()];
    let command = Command::try_parse_from(words).expect("these are its words");
    match run(&command.replay) {
        Err(failure) => assert!(!failure.to_string().is_empty()),
        Ok(()) => {
            let summary = fs::read(out.join("summary.json")).expect("it was made");
            let summary: Value = serde_json::from_slice(&summary).expect("it is JSON");
            let number = |value: &Value, name: &str| value[name].as_u64().expect("a number");
            let (input, queue) = (&summary["inputs"][0], &summary["queues"][0]);
            let discards = summary["discards"].as_object().expect("an object");
            let discarded: u64 = discards.values().filter_map(Value::as_u64).sum();
            let queued = number(queue, "enqueued_packets") + number(queue, "dropped_packets");
            assert_eq!(number(input, "packets"), queued + discarded);
            assert_eq!(number(queue, "enqueued_packets"), number(queue, "dequeued_packets"));
            assert_eq!(number(queue, "dequeued_packets"), number(&summary["outputs"][0], "packets"));
        }
    }
});
