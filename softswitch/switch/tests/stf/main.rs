// SPDX-License-Identifier: Apache-2.0
//! Programs with scripts of packets (STF, as p4c's own tests have them): what leaves is what the script says, by native code and by
//! the interpreter.
//!
//! The programs in `programs/` are ours, one for each feature, and committed compiled. `NARROWS_STF` names a directory of others,
//! such as p4c's `testdata/p4_16_samples` compiled by `p4c-bm2-ss`: `NAME.json` beside `NAME.stf`. A table of what passes, what is
//! refused and what fails is printed for them.

mod script;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use narrows_pipeline::{Packet, PacketPool, Pipeline, Program};
use narrows_switch::switch::{Output, PortKind, Switch, FIRST};
use narrows_switch::tm::{Changes, Rate};
use narrows_switch::unit::ProgramUnit;
use script::{parse, Controller, Line, Pattern};

/// Ports of the switch.
const PORTS: u16 = 32;
/// Between two packets.
const GAP_NS: u64 = 1_000_000;
/// After which nothing waits any more.
const LONG_NS: u64 = 3_600_000_000_000;

/// What came of a script.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    Refused(String),
    Failed(String),
}

/// What left by each port, in order.
#[derive(Default)]
struct Sent(BTreeMap<u16, Vec<Vec<u8>>>);

impl Output for Sent {
    fn send(&mut self, port: u16, _: u64, packet: Box<Packet>, pool: &mut PacketPool) {
        self.0.entry(port).or_default().push(packet.bytes().to_vec());
        pool.give(packet);
    }
}

fn hex(frame: &[u8]) -> String {
    frame.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// How a program is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Native,
    /// By native code, which begins with each packet before it comes in.
    Prepared,
    Interpreted,
}

/// Runs a script on a program.
fn run(program: &Arc<Program>, lines: &[Line], way: Way) -> Result<(), String> {
    let pipeline = if way == Way::Interpreted { Pipeline::interpreter } else { Pipeline::new };
    let kinds: Vec<_> = (0..PORTS).map(|port| (port, PortKind::Interface)).collect();
    let mut switch = Switch::new(&kinds, 10_000);
    switch.set_unit(FIRST, ProgramUnit::new(pipeline(Arc::clone(program), 1)));
    let (mut controller, mut sent, mut now_ns) = (Controller::default(), Sent::default(), 0);
    let mut expected: BTreeMap<u16, Vec<&Pattern>> = BTreeMap::new();
    for line in lines {
        match line {
            Line::Control(words) => {
                let unit = switch.unit(FIRST).ok_or("no program")?;
                controller.apply(unit, words).map_err(|error| format!("{}: {error}", words.join(" ")))?;
            }
            Line::Packet(port, frame) => {
                now_ns += GAP_NS;
                let mut packet = switch.pool().packet(frame);
                if way == Way::Prepared {
                    // What is prepared before the first packet is not used: tables have just changed.
                    let unit = switch.unit(FIRST).ok_or("no program")?;
                    unit.pipeline.prepare(&mut packet, *port, now_ns);
                }
                switch.receive(*port, now_ns, packet, &mut sent);
                switch.advance(now_ns, &mut sent);
            }
            Line::Rate(port, bps) => {
                let changes = Changes { rate: Some(Rate::Bps(*bps)), ..Changes::default() };
                switch.tm.configure((*port, 0), now_ns, changes).map_err(|error| error.to_string())?;
            }
            Line::Assertion(text) => {
                let failed = switch.failed_assertion().unwrap_or_default();
                return if failed.contains(text) { Ok(()) } else { Err(format!("{failed:?}, expected {text:?}")) };
            }
            Line::Expect(port, pattern) => expected.entry(*port).or_default().push(pattern),
        }
    }
    switch.advance(now_ns + LONG_NS, &mut sent);
    if let Some(failed) = switch.failed_assertion() {
        return Err(failed);
    }
    for port in 0..PORTS {
        let (wanted, found) = (expected.remove(&port).unwrap_or_default(), sent.0.remove(&port).unwrap_or_default());
        for (number, (pattern, frame)) in wanted.iter().zip(&found).enumerate() {
            if !pattern.matches(frame) {
                return Err(format!("packet {number} of port {port} is {}, expected {pattern:?}", hex(frame)));
            }
        }
        if wanted.len() != found.len() {
            let frames: Vec<String> = found.iter().map(|frame| hex(frame)).collect();
            return Err(format!("port {port}: {} packets, expected {}: {frames:?}", found.len(), wanted.len()));
        }
    }
    Ok(())
}

fn outcome(json: &Path, script: &Path) -> Outcome {
    let read = |path: &Path| std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()));
    let result = read(json).and_then(|bytes| Ok((bytes, read(script)?)));
    let (program, text) = match result {
        Ok(files) => files,
        Err(error) => return Outcome::Failed(error),
    };
    let program = match Program::load(&program) {
        Ok(program) => Arc::new(program),
        Err(error) => return Outcome::Refused(error.to_string()),
    };
    let lines = match parse(&String::from_utf8_lossy(&text)) {
        Ok(lines) => lines,
        Err(error) => return Outcome::Failed(error),
    };
    for way in [Way::Native, Way::Prepared, Way::Interpreted] {
        if let Err(error) = run(&program, &lines, way) {
            return Outcome::Failed(format!("{way:?}: {error}"));
        }
    }
    Outcome::Passed
}

/// The outcome of every program in a directory, by its name.
fn outcomes(directory: &Path) -> BTreeMap<String, Outcome> {
    let files = std::fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let programs = files.flatten().map(|file| file.path()).filter(|path| path.extension().is_some_and(|e| e == "json"));
    let with_scripts = programs.filter(|path| path.with_extension("stf").exists());
    let name = |path: &PathBuf| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    with_scripts.map(|path| (name(&path), outcome(&path, &path.with_extension("stf")))).collect()
}

#[test]
fn our_programs_do_what_their_scripts_say() {
    let found = outcomes(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stf/programs"));
    assert!(found.len() >= 6, "{found:?}");
    for (name, outcome) in found {
        assert_eq!(outcome, Outcome::Passed, "{name}");
    }
}

/// Examples that users are given: their programs are where the experiments are.
#[test]
fn examples_do_what_they_say() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let compiled = here.join("../../experiments/own-program/compiled");
    let scripts = std::fs::read_dir(here.join("tests/stf/examples")).expect("scripts").flatten();
    for script in scripts.map(|file| file.path()) {
        let name = script.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        assert_eq!(outcome(&compiled.join(format!("{name}.json")), &script), Outcome::Passed, "{name}");
    }
}

#[test]
fn other_programs_pass_or_are_refused() {
    let Some(directory) = std::env::var_os("NARROWS_STF") else {
        return;
    };
    let found = outcomes(Path::new(&directory));
    let mut counts = [0; 3];
    for (name, outcome) in &found {
        let (count, text) = match outcome {
            Outcome::Passed => (0, "passed".to_owned()),
            Outcome::Refused(why) => (1, format!("refused: {why}")),
            Outcome::Failed(why) => (2, format!("FAILED: {why}")),
        };
        counts[count] += 1;
        println!("{name}: {text}");
    }
    println!("{} passed, {} refused by name, {} failed", counts[0], counts[1], counts[2]);
    assert_eq!(counts[2], 0, "of {} programs", found.len());
}
