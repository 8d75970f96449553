//! The compiled bottleneck program in virtual time: determinism, exact departure times, exact drops, telemetry.
// SPDX-License-Identifier: Apache-2.0
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{json, Value};

const RATE: u64 = 10_000_000_007; // prime: every packet leaves a remainder
const FRAME: u64 = 1_514;
const LIMIT: u64 = 30_000;
const REPORT: usize = 42; // Ethernet, IPv4 and UDP in front of a report
const REPORT_BYTES: usize = 56;

fn program() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../p4src/compiled/v1model/narrows.json")
}

fn config() -> Value {
    json!({
        "program": program(),
        "ports": [1, 2, 3],
        "entries": [
            {"table": "NarrowsIngress.cross_connect.cross_connect", "match": {"ingress_port": 1}, "priority": 1,
             "action": "NarrowsIngress.cross_connect.bottleneck", "params": {"index": 0, "port": 2, "queue": 0}},
            {"table": "NarrowsEgress.settings.bottleneck", "match": {"bottleneck": 0},
             "action": "NarrowsEgress.settings.observe",
             "params": {"threshold": "0xffffffff", "counts_packets": 0, "seed": 0, "mask": 0, "shift": 0, "epoch": 0,
                        "mirror": 1}},
            {"table": "NarrowsEgress.report.collector", "match": {"bottleneck": 0},
             "action": "NarrowsEgress.report.encapsulate",
             "params": {"src_mac": "02:00:00:00:00:fe", "dst_mac": "02:00:00:00:00:ff", "src_ip": "10.255.0.1",
                        "dst_ip": "10.255.0.2", "src_port": 5500, "dst_port": 5500, "length": 184}},
        ],
        "clone_sessions": [{"session": 1, "ports": [3], "length_limit": 128}],
        "queues": [{"port": 2, "rate_bps": RATE, "limit_bytes": LIMIT, "delay_ns": 2_000}],
        "inputs": [{"port": 1, "generator": {"arrivals": "constant", "rate_bps": RATE + RATE / 10,
                    "frame_bytes": FRAME, "flows": 7, "stop_ns": 20_000_000}}],
        "outputs": [{"port": 2, "pcap": "out.pcap"}, {"port": 3, "pcap": "reports.pcap"}],
    })
}

/// Times and bytes of captured frames.
type Frames = Vec<(u64, Vec<u8>)>;

struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("narrows-replay-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Directory(path)
    }

    fn replay(&self, config: &Value, extra: &[&str]) -> Output {
        std::fs::write(self.0.join("config.json"), config.to_string()).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_narrows-softswitch"));
        command.arg("replay").arg("--config").arg(self.0.join("config.json")).arg("--out").arg(self.0.join("out"));
        command.args(extra).output().unwrap()
    }

    fn run(&self, config: &Value) -> (Value, Frames, Frames) {
        let output = self.replay(config, &[]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let summary = serde_json::from_slice(&self.read("summary.json")).unwrap();
        (summary, frames(&self.read("out.pcap")), frames(&self.read("reports.pcap")))
    }

    fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.0.join("out").join(name)).unwrap()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn frames(pcap: &[u8]) -> Frames {
    let word = |at: usize| u64::from(u32::from_le_bytes(pcap[at..at + 4].try_into().unwrap()));
    let (mut at, mut found) = (24, vec![]);
    while at < pcap.len() {
        let captured = word(at + 8) as usize;
        found.push((word(at) * 1_000_000_000 + word(at + 4), pcap[at + 16..at + 16 + captured].to_vec()));
        at += 16 + captured;
    }
    found
}

/// Big-endian number in a report at this offset of report_t.
fn field(report: &[u8], at: usize, bytes: usize) -> u64 {
    report[REPORT + at..REPORT + at + bytes].iter().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

#[test]
fn departures_follow_the_byte_clock_exactly() {
    let directory = Directory::new("clock");
    let (summary, out, _) = directory.run(&config());
    assert!(out.len() > 10_000);
    for (number, (time, frame)) in out.iter().enumerate() {
        let bits = (number as u128 + 1) * u128::from(FRAME) * 8_000_000_000;
        assert_eq!(u128::from(*time), bits / u128::from(RATE) + 2_000, "departure {number}");
        assert_eq!(frame.len() as u64, FRAME);
    }
    let queue = &summary["queues"][0];
    assert_eq!(queue["dequeued_packets"], out.len());
    assert_eq!(queue["dequeued_bytes"], out.len() as u64 * FRAME);
    // Full: another frame would not fit. The frame in service does not count.
    assert_eq!(queue["peak_depth_bytes"], LIMIT / FRAME * FRAME);
    let arrived = summary["inputs"][0]["packets"].as_u64().unwrap();
    assert_eq!(arrived, out.len() as u64 + queue["dropped_packets"].as_u64().unwrap());
}

#[test]
fn reports_account_for_every_drop_of_every_flow() {
    let (summary, out, reports) = Directory::new("reports").run(&config());
    assert_eq!(out.len(), reports.len());
    let mut drops = BTreeMap::new();
    for (number, (_, report)) in reports.iter().enumerate() {
        assert_eq!(report.len(), 184);
        assert_eq!(field(report, 12, 4), number as u64 + 1, "sequence");
        drops.insert(field(report, 4, 2), field(report, 16, 4) - field(report, 20, 4));
    }
    let counted = summary["queues"][0]["flow_drops"].as_array().unwrap();
    let counted: BTreeMap<u64, u64> =
        counted.iter().map(|flow| (flow["flow"].as_u64().unwrap(), flow["packets"].as_u64().unwrap())).collect();
    assert_eq!(counted.len(), 7);
    // Drops after a flow's last departure are not in any report: the queue stays full to the end here, so at most its
    // share of the arrivals behind it.
    for (flow, counted) in &counted {
        let reported = drops[flow];
        assert!(reported <= *counted && counted - reported <= 2, "flow {flow}: {reported} reported, {counted} dropped");
    }
}

#[test]
fn reports_tell_the_queue_as_it_was() {
    let (_, out, reports) = Directory::new("truth").run(&config());
    let mut previous = 0;
    for (number, ((exit, _), (_, report))) in out.iter().zip(&reports).enumerate() {
        let (delay, enqueue, dequeue) = (field(report, 40, 6), field(report, 32, 4), field(report, 36, 4));
        let (start, epoch) = (field(report, 48, 6), field(report, 46, 2));
        let serialization = (FRAME * 8_000_000_000).div_ceil(RATE);
        assert!((serialization - 1..=serialization).contains(&(exit - 2_000 - start)), "packet {number}");
        // With frames of one length, the wait is that of the bytes ahead and at most one frame in service.
        let ahead = enqueue * 8_000_000_000 / RATE;
        assert!(delay >= ahead && delay <= ahead + serialization + 1, "packet {number}: {delay} for {enqueue} bytes");
        assert!(enqueue + FRAME <= LIMIT && enqueue % FRAME == 0 && dequeue % FRAME == 0);
        assert_eq!((field(report, 6, 2), epoch), (FRAME, 2));
        assert!(start >= previous);
        previous = start;
    }
}

/// A thousand frames of 1514 bytes at 1 Mbit/s are 12.112 s, more than 2^32 ns.
#[test]
fn a_wait_of_twelve_seconds_is_whole() {
    let (rate, packets) = (1_000_000, 1_000);
    let service = FRAME * 8_000;
    let mut config = config();
    config["queues"] = json!([{"port": 2, "rate_bps": rate, "limit_bytes": 0, "limit_packets": packets}]);
    config["inputs"][0]["generator"]["rate_bps"] = json!(3 * rate);
    config["inputs"][0]["generator"]["stop_ns"] = json!(20_000_000_000_u64);
    let (_, _, reports) = Directory::new("slow").run(&config);
    let mut longest = 0;
    for (number, (_, report)) in reports.iter().enumerate() {
        let (delay, found) = (field(report, 40, 6), field(report, 32, 4));
        let ahead = found * 8_000;
        assert!(delay >= ahead && delay <= ahead + service, "packet {number}: {delay} ns for {found} bytes");
        longest = longest.max(delay);
    }
    assert!((packets - 1) * service <= longest && longest <= packets * service, "{longest}");
}

#[test]
fn live_changes_lose_nothing_and_show_in_the_telemetry() {
    let mut config = config();
    let queues = config["queues"].as_array_mut().unwrap();
    queues.push(json!({"port": 2, "at_ns": 10_000_000, "rate_bps": RATE / 2, "limit_bytes": 2 * LIMIT}));
    let (summary, out, reports) = Directory::new("live").run(&config);
    let queue = &summary["queues"][0];
    let arrived = summary["inputs"][0]["packets"].as_u64().unwrap();
    assert_eq!(arrived, out.len() as u64 + queue["dropped_packets"].as_u64().unwrap());
    assert_eq!(queue["epoch"], 3);
    assert_eq!(queue["peak_depth_bytes"], 2 * LIMIT / FRAME * FRAME);
    let epochs: Vec<u64> = reports.iter().map(|(_, report)| field(report, 46, 2)).collect();
    let change = epochs.iter().position(|epoch| *epoch == 3).unwrap();
    assert!(epochs[..change].iter().all(|epoch| *epoch == 2) && epochs[change..].iter().all(|epoch| *epoch == 3));
    // What has passed the link before the change went at the old rate; of what is in service then the rest goes at the new one.
    let work = FRAME * 8_000_000_000;
    for pair in out.windows(2) {
        let started = pair[0].0 - 2_000;
        let before = 10_000_000u64.saturating_sub(started).min(work / RATE);
        let expected = before + (work - before * RATE) / if before < work / RATE { RATE / 2 } else { RATE };
        // Starts are rounded down, by less than a nanosecond of twice as much work.
        assert!((expected..=expected + 2).contains(&(pair[1].0 - pair[0].0)), "at {started}");
    }
}

#[test]
fn a_live_change_of_delay_loses_nothing_and_keeps_the_order() {
    let mut config = config();
    let queues = config["queues"].as_array_mut().unwrap();
    queues.push(json!({"port": 2, "at_ns": 8_000_000, "delay_ns": 500_000}));
    queues.push(json!({"port": 2, "at_ns": 14_000_000, "delay_ns": 1_000}));
    let (summary, out, reports) = Directory::new("delay").run(&config);
    let queue = &summary["queues"][0];
    let arrived = summary["inputs"][0]["packets"].as_u64().unwrap();
    assert_eq!(arrived, out.len() as u64 + queue["dropped_packets"].as_u64().unwrap());
    assert_eq!((queue["epoch"].as_u64(), out.len()), (Some(4), reports.len()));
    let epochs: Vec<u64> = reports.iter().map(|(_, report)| field(report, 46, 2)).collect();
    assert!(epochs.windows(2).all(|pair| pair[0] <= pair[1]) && epochs.contains(&3) && epochs.contains(&4));
    let mut last_exit = 0;
    for (number, ((exit, frame), (_, report))) in out.iter().zip(&reports).enumerate() {
        // Output and reports are of the same packet: the report holds its first bytes.
        assert_eq!(report[REPORT + REPORT_BYTES..], frame[..report.len() - REPORT - REPORT_BYTES], "packet {number}");
        let finish = (number as u128 + 1) * u128::from(FRAME) * 8_000_000_000 / u128::from(RATE);
        // The delay that holds when the last bit has passed the link.
        let delay = if finish <= 8_000_000 {
            2_000
        } else if finish <= 14_000_000 {
            500_000
        } else {
            1_000
        };
        // When the delay shrinks nothing overtakes.
        last_exit = last_exit.max(finish as u64 + delay);
        assert_eq!(*exit, last_exit, "packet {number}");
    }
}

/// Packets hold no more of a frame than is read; all that was captured comes out nevertheless, in reports too.
#[test]
fn frames_come_out_as_far_as_they_were_captured_and_then_zeros() {
    let mut config = config();
    config["inputs"] = json!([{"port": 1, "pcap": "in.pcap"}]);
    config["queues"] = json!([]);
    config["clone_sessions"][0]["length_limit"] = 0.into();
    config["entries"][2]["params"]["length"] = 400.into();
    let mut frame: Vec<u8> = (0..FRAME).map(|at| (at % 251) as u8 + 1).collect();
    frame[12..34].copy_from_slice(&[8, 0, 0x45, 0, 5, 220, 0, 0, 64, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    let captured = [40, 86, 87, 200, 1_000, FRAME as usize];
    let mut file = [0xa1b2_3c4d_u32, 0x0004_0002, 0, 0, 65_535, 1].map(u32::to_le_bytes).concat();
    for (number, captured) in captured.into_iter().enumerate() {
        file.extend([1, number as u32, captured as u32, FRAME as u32].map(u32::to_le_bytes).concat());
        file.extend(&frame[..captured]);
    }
    let directory = Directory::new("captured");
    std::fs::write(directory.0.join("in.pcap"), file).unwrap();
    let (summary, out, reports) = directory.run(&config);
    assert_eq!((out.len(), reports.len()), (captured.len(), captured.len()));
    assert_eq!(summary["outputs"][1]["bytes"], captured.len() as u64 * FRAME);
    for (((_, out), (_, report)), captured) in out.iter().zip(&reports).zip(captured) {
        let mut expected = frame[..captured].to_vec();
        expected.resize(FRAME as usize, 0);
        assert!(*out == expected, "{captured} bytes");
        assert!(report.len() == 400 && report[REPORT + REPORT_BYTES..] == expected[..302], "{captured} bytes");
    }
}

/// Of times 5, 3, 7, 6 and 8 us two go back. The capture's frames end with their FCS of 4 bytes, which is not part of them.
#[test]
fn frames_behind_later_ones_are_counted_and_said() {
    let mut config = config();
    config["inputs"] = json!([{"port": 1, "pcap": "in.pcap"}]);
    config["queues"] = json!([]);
    let mut file = [0xa1b2_3c4d_u32, 0x0004_0002, 0, 0, 65_535, 0x2400_0001].map(u32::to_le_bytes).concat();
    for microseconds in [5, 3, 7, 6, 8] {
        file.extend([1, microseconds * 1_000, 64, 64].map(u32::to_le_bytes).concat());
        file.extend([0; 64]);
    }
    let directory = Directory::new("behind");
    std::fs::write(directory.0.join("in.pcap"), file).unwrap();
    let output = directory.replay(&config, &[]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && stderr.contains("in.pcap: 2 frames are behind later ones"), "{stderr}");
    let summary: Value = serde_json::from_slice(&directory.read("summary.json")).unwrap();
    assert_eq!(summary["inputs"][0]["moved_packets"], 2);
    assert_eq!((&summary["inputs"][0]["bytes"], &summary["outputs"][1]["bytes"]), (&json!(300), &json!(300)));
    let times: Vec<u64> = frames(&directory.read("out.pcap")).into_iter().map(|(time, _)| time).collect();
    assert_eq!(times, [0, 0, 2_000, 2_000, 3_000]);
}

#[test]
fn frames_that_come_after_the_end_of_time_are_refused() {
    let mut config = config();
    config["inputs"] = json!([{"port": 1, "pcap": "in.pcap"}]);
    let directory = Directory::new("late");
    for (seconds, start_ns, code) in [(2_000_000_000, 0u64, 0), (3_000_000_000, 0, 2), (0, u64::MAX, 2)] {
        let mut file = [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1].map(u32::to_le_bytes).concat();
        for second in [0, seconds] {
            file.extend([second, 0, 60, 60].map(u32::to_le_bytes).concat());
            file.extend([0; 60]);
        }
        std::fs::write(directory.0.join("in.pcap"), file).unwrap();
        config["inputs"][0]["start_ns"] = json!(start_ns);
        let output = directory.replay(&config, &[]);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{stderr}");
        assert!(code == 0 || stderr.contains("in.pcap: a frame at "), "{stderr}");
    }
}

#[test]
fn same_seed_same_bytes() {
    let mut config = config();
    config["inputs"][0]["generator"]["arrivals"] = "poisson".into();
    let (first, second, other) = (Directory::new("a"), Directory::new("b"), Directory::new("c"));
    for (directory, seed) in [(&first, "5"), (&second, "5"), (&other, "6")] {
        assert!(directory.replay(&config, &["--seed", seed]).status.success());
    }
    for name in ["out.pcap", "reports.pcap", "summary.json"] {
        assert!(first.read(name) == second.read(name), "{name} differs");
        assert!(first.read(name) != other.read(name), "{name} does not depend on the seed");
    }
    // A capture that went in comes out again: replaying the output through a queue without limits keeps every frame.
    let again = Directory::new("again");
    std::fs::write(again.0.join("in.pcap"), first.read("out.pcap")).unwrap();
    config["inputs"] = json!([{"port": 1, "pcap": "in.pcap"}]);
    config["queues"] = json!([]);
    let (_, out, _) = again.run(&config);
    let before: Vec<Vec<u8>> = frames(&first.read("out.pcap")).into_iter().map(|(_, frame)| frame).collect();
    assert_eq!(out.into_iter().map(|(_, frame)| frame).collect::<Vec<_>>(), before);
}

#[test]
fn mistakes_are_named_and_change_nothing() {
    let cases = [
        (json!({"queues": [{"port": 9}]}), "queues[0]: port 9"),
        (json!({"queues": [{"port": 2, "queue": 8}]}), "queues[0]"),
        (json!({"inputs": [{"port": 1}]}), "inputs[0]: one of pcap and generator"),
        (json!({"inputs": [{"port": 1, "pcap": "none.pcap"}]}), "none.pcap"),
        (json!({"outputs": [{"port": 2, "pcap": "../x"}]}), "outputs[0]: pcap"),
        (json!({"entries": [{"table": "t", "action": "a"}]}), "entries[0]: no table t"),
        (json!({"loopbacks": [7]}), "until_ns"),
        (json!({"colour": 1}), "unknown field `colour`"),
        (json!({"program": "none.json"}), "none.json"),
    ];
    for (number, (change, message)) in cases.into_iter().enumerate() {
        let directory = Directory::new(&format!("wrong{number}"));
        let mut config = config();
        for (name, value) in change.as_object().unwrap() {
            config[name] = value.clone();
        }
        let output = directory.replay(&config, &[]);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(message) && stderr.contains("config.json"), "{stderr}");
        assert!(!directory.0.join("out/summary.json").exists());
    }
}

/// A program that sends frames back to a loopback port that has neither rate nor delay: no time passes for them.
#[test]
fn a_loop_without_time_ends() {
    let directory = Directory::new("endless");
    let mut endless = config();
    endless["loopbacks"] = json!([9]);
    endless["until_ns"] = json!(1_000_000);
    let wire = |from: u16, to: u16| {
        json!({"table": "NarrowsIngress.cross_connect.cross_connect", "match": {"ingress_port": from}, "priority": 1,
               "action": "NarrowsIngress.cross_connect.wire", "params": {"port": to}})
    };
    endless["entries"] = json!([wire(1, 9), wire(9, 9)]);
    endless["queues"] = json!([]);
    endless["inputs"][0]["generator"]["stop_ns"] = json!(100_000);
    let (summary, _, _) = directory.run(&endless);
    let sent = summary["inputs"][0]["packets"].as_u64().unwrap();
    assert!(sent > 50);
    assert_eq!(summary["discards"]["loopback"], sent);
    // With a rate time passes, and the frames are still in transit.
    endless["queues"] = json!([{"port": 9, "rate_bps": 1_000_000_000u64}]);
    let (summary, _, _) = directory.run(&endless);
    assert_eq!((&summary["discards"]["loopback"], &summary["held_packets"]), (&json!(0), &json!(sent)));
}

/// A clone session that asks for more copies than one packet can have.
#[test]
fn copies_of_a_packet_are_bounded() {
    let directory = Directory::new("copies");
    let mut many = config();
    many["clone_sessions"][0]["ports"] = json!(vec![3; 1_500]);
    many["inputs"][0]["generator"]["stop_ns"] = json!(20_000);
    let (summary, out, reports) = directory.run(&many);
    let frames = out.len() as u64;
    assert!(frames > 5);
    assert_eq!(reports.len() as u64, 1_024 * frames);
    assert_eq!(summary["discards"]["clones"], (1_500 - 1_024) * frames);
}
