//! `narrows-softswitch replay`: the switch in virtual time. The same input and seed give the same bytes out.
// SPDX-License-Identifier: Apache-2.0
mod config;
mod entries;
mod generate;
mod link;
mod link_config;
mod mapped;
mod memory;
mod sink;
mod source;
mod streamed;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use narrows_pipeline::{Pipeline, Program, TableInfo};
use serde_json::{json, Value};

use config::{Config, InputConfig, QueueConfig};
use sink::Sinks;
use source::Source;

use crate::earliest::Earliest;
use crate::failure::Failure;
use crate::forwarding::{CloneSession, Forwarding, MAX_SESSION};
use crate::switch::{PortKind, Switch};
use crate::tm::{Drops, FlowCause, PORTS, PRIORITIES};

/// How often the program's digests are taken from it, and outputs asked for errors, in frames.
const HOUSEKEEPING_INTERVAL: u64 = 16_384;

/// Arguments of `replay`.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// Configuration file (JSON; softswitch/README.md describes it); repeatable: each is run on a thread of its own
    #[arg(long, required = true)]
    config: Vec<PathBuf>,
    /// Directory for the captures and summary.json; made if it does not exist. Of several configurations each has one there, by
    /// the name of its file
    #[arg(long)]
    out: PathBuf,
    /// Seed, instead of the configuration's
    #[arg(long)]
    seed: Option<u64>,
}

fn port_number(port: u16, known: &[u16], place: &str) -> Result<(), Failure> {
    match known.contains(&port) {
        true => Ok(()),
        false => Err(Failure::usage(format!("{place}: port {port} is not among ports and loopbacks"))),
    }
}

fn table<'p>(program: &'p Program, name: &str, place: &str) -> Result<&'p TableInfo, Failure> {
    let found = program.tables().iter().find(|table| table.name == name);
    found.ok_or_else(|| {
        let names: Vec<&str> = program.tables().iter().map(|table| table.name.as_str()).collect();
        Failure::usage(format!("{place}: no table {name}: the program has {}", names.join(", ")))
    })
}

/// Loads the program and installs entries, default actions and clone sessions.
fn forwarding(config: &Config, seed: u64) -> Result<Forwarding, Failure> {
    let place = config.program.display();
    let json = std::fs::read(&config.program).map_err(|error| Failure::usage(format!("{place}: {error}")))?;
    let program = Program::load(&json).map_err(|error| Failure::usage(format!("{place}: {error}")))?;
    if let Some(multicast) = &program.multicast {
        return Err(Failure::usage(format!("{place}: {multicast}: multicast groups are not supported")));
    }
    let program = Arc::new(program);
    let mut forwarding = Forwarding::new(Pipeline::new(Arc::clone(&program), seed));
    for (number, given) in config.entries.iter().enumerate() {
        let place = format!("entries[{number}]");
        let wrong = |why: String| Failure::usage(format!("{place}: table {}: {why}", given.table));
        let table = table(&program, &given.table, &place)?;
        let entry = entries::entry(table, given).map_err(wrong)?;
        forwarding.pipeline.table_insert(table.id, &entry).map_err(|error| wrong(error.to_string()))?;
    }
    for (number, given) in config.defaults.iter().enumerate() {
        let place = format!("defaults[{number}]");
        let wrong = |why: String| Failure::usage(format!("{place}: table {}: {why}", given.table));
        let table = table(&program, &given.table, &place)?;
        let action = entries::action(table, &given.action, &given.params).map_err(wrong)?;
        let set = forwarding.pipeline.table_set_default(table.id, Some(&action));
        set.map_err(|error| wrong(error.to_string()))?;
    }
    for (number, given) in config.clone_sessions.iter().enumerate() {
        let place = format!("clone_sessions[{number}]");
        if !(1..=MAX_SESSION).contains(&given.session) {
            return Err(Failure::usage(format!("{place}: session {}: allowed are 1 to {MAX_SESSION}", given.session)));
        }
        if usize::from(given.queue) >= PRIORITIES {
            return Err(Failure::usage(format!("{place}: queue {}: allowed are 0 to 7", given.queue)));
        }
        let replicas = given.ports.iter().map(|port| (*port, 0)).collect();
        let session =
            CloneSession { replicas, priority: given.queue, length_limit: given.length_limit, numeric_ports: false };
        forwarding.sessions.set(given.session, Some(session));
    }
    Ok(forwarding)
}

fn switch(config: &Config, seed: u64) -> Result<Switch, Failure> {
    let interfaces = config.ports.iter().map(|port| (*port, PortKind::Interface));
    let loopbacks = config.loopbacks.iter().map(|port| (*port, PortKind::Loopback));
    let kinds: Vec<(u16, PortKind)> = interfaces.chain(loopbacks).collect();
    for (position, (port, _)) in kinds.iter().enumerate() {
        if usize::from(*port) >= PORTS {
            return Err(Failure::usage(format!("ports: {port}: allowed are 0 to {}", PORTS - 1)));
        }
        if kinds[..position].iter().any(|(other, _)| other == port) {
            return Err(Failure::usage(format!("ports: {port} is given twice")));
        }
    }
    if !config.loopbacks.is_empty() && config.until_ns.is_none() {
        return Err(Failure::usage("until_ns is missing: with loopback ports a frame may circulate for ever"));
    }
    let mut switch = Switch::new(&kinds, config.pool_packets);
    switch.set_forwarding(forwarding(config, seed)?);
    Ok(switch)
}

/// How much of a frame is looked at: what is behind that need not be there.
#[derive(Debug, Clone, Copy)]
struct View {
    /// Bytes that the program may parse.
    parsed: usize,
    /// Bytes that some output may show.
    shown: usize,
}

impl View {
    fn new(config: &Config, program: &Program) -> Self {
        let snaps = config.outputs.iter().map(|output| output.snap_bytes);
        let snap = snaps.map(|snap| if snap == 0 { usize::MAX } else { snap }).max().unwrap_or(0);
        // On a loopback port all of a frame comes in again.
        let parsed = program.parsed_bytes().filter(|_| config.loopbacks.is_empty()).unwrap_or(usize::MAX);
        // The program may take off all the headers that it parses, which brings forward what follows them.
        View { parsed, shown: snap.saturating_add(parsed) }
    }

    /// Bytes to be held of a frame that consists of zeros behind the first `known` ones.
    #[inline]
    fn held(self, known: usize) -> usize {
        self.shown.min(known.max(self.parsed))
    }
}

fn apply(switch: &mut Switch, given: &QueueConfig) -> Result<(), String> {
    let changes = link::changes(given)?;
    switch.tm.configure((given.port, given.queue), given.at_ns, changes).map(drop)
}

/// Queue settings in order of time; all are tried on a switch of their own first, so that a wrong one stops the run early.
fn schedule(config: &Config, known: &[u16]) -> Result<Vec<QueueConfig>, Failure> {
    let mut trial = Switch::new(&[], 1);
    for (number, given) in config.queues.iter().enumerate() {
        let place = format!("queues[{number}]");
        port_number(given.port, known, &place)?;
        apply(&mut trial, given).map_err(|error| Failure::usage(format!("{place}: {error}")))?;
    }
    let mut queues = config.queues.clone();
    queues.sort_by_key(|given| given.at_ns);
    Ok(queues)
}

struct Run {
    switch: Switch,
    sinks: Sinks,
    sources: Vec<Source>,
    /// By position, the time of each source's next frame.
    heads: Earliest,
    changes: std::iter::Peekable<std::vec::IntoIter<QueueConfig>>,
    view: View,
    until_ns: u64,
    digests: u64,
}

impl Run {
    fn drain_digests(&mut self) {
        let mut records = vec![];
        self.switch.drain_digests(&mut records);
        self.digests += records.len() as u64;
    }

    /// Makes the frame ready that comes next of all inputs, and has the switch ask for what it will need.
    #[inline(always)]
    fn prepare(&mut self) {
        let Some((time_ns, position)) = self.heads.first() else {
            return;
        };
        let Some(source) = self.sources.get_mut(position) else {
            return;
        };
        let port = source.port;
        let following = source.prepare(self.switch.pool(), self.view);
        if let (Some(following), Some(forwarding)) = (following, self.switch.forwarding()) {
            forwarding.pipeline.prepare(following, port, time_ns);
        }
    }

    /// Receives all frames that come before `end_ns`.
    fn receive(&mut self, end_ns: u64) -> Result<(), Failure> {
        let Some(last_ns) = end_ns.checked_sub(1) else {
            return Ok(());
        };
        let mut frames = 0u64;
        while let Some((time_ns, position)) = self.heads.until(last_ns) {
            let source = &mut self.sources[position];
            let port = source.port;
            let packet = source.take(self.switch.pool(), self.view)?;
            self.heads.set(position, source.next_time());
            self.prepare();
            if let Some(packet) = packet {
                self.switch.receive(port, time_ns, packet, &mut self.sinks);
            }
            frames += 1;
            if frames % HOUSEKEEPING_INTERVAL == 0 {
                self.drain_digests();
                self.sinks.check()?;
            }
        }
        Ok(())
    }

    fn execute(&mut self) -> Result<(), Failure> {
        let until_ns = self.until_ns;
        while let Some(change) = self.changes.next_if(|change| change.at_ns < until_ns) {
            // A change comes before the frames of the same instant.
            self.receive(change.at_ns)?;
            self.switch.advance(change.at_ns, &mut self.sinks);
            apply(&mut self.switch, &change).map_err(Failure::usage)?;
        }
        self.receive(until_ns)?;
        while let Some(due) = self.switch.next_due().filter(|due| *due < until_ns) {
            self.switch.advance(due, &mut self.sinks);
        }
        self.drain_digests();
        self.sinks.finish()
    }

    fn summary(&self, seed: u64) -> Value {
        let inputs = self.sources.iter().map(|source| {
            let (packets, bytes) = (source.packets, source.bytes);
            json!({
                "port": source.port, "packets": packets, "bytes": bytes,
                "padded_packets": source.padded, "moved_packets": source.moved,
            })
        });
        let outputs = self.sinks.iter().map(
            |(port, sink)| json!({"port": port, "packets": sink.packets, "bytes": sink.bytes, "last_ns": sink.last_ns}),
        );
        let queues = self.switch.tm.status().into_iter().map(|queue| {
            let flows = |cause| by_flow(self.switch.tm.flows(queue.port, queue.priority, cause));
            let counters = queue.counters;
            let rate = queue.curve.rate.bps().map_or(json!("unlimited"), |rate| json!(rate));
            json!({
                "port": queue.port, "queue": queue.priority, "rate_bps": rate,
                "limit_bytes": queue.limit_bytes, "limit_packets": queue.limit_packets,
                "delay_ns": queue.delay_ns, "epoch": queue.epoch,
                "enqueued_packets": counters.enqueued_packets, "enqueued_bytes": counters.enqueued_bytes,
                "dequeued_packets": counters.dequeued_packets, "dequeued_bytes": counters.dequeued_bytes,
                "dropped_packets": counters.dropped_packets, "dropped_bytes": counters.dropped_bytes,
                "pool_dropped_packets": counters.pool_dropped_packets,
                "depth_packets": queue.depth_packets, "depth_bytes": queue.depth_bytes,
                "peak_depth_packets": counters.peak_depth_packets, "peak_depth_bytes": counters.peak_depth_bytes,
                "flow_drops": flows(FlowCause::Tail),
                "duplicated_packets": counters.duplicated_packets, "flow_duplicates": flows(FlowCause::Duplicate),
            })
        });
        let discards = self.switch.discards();
        json!({
            "narrows_version": env!("CARGO_PKG_VERSION"),
            "seed": seed,
            "end_ns": self.switch.now_ns(),
            "inputs": inputs.collect::<Vec<_>>(),
            "outputs": outputs.collect::<Vec<_>>(),
            "queues": queues.collect::<Vec<_>>(),
            "held_packets": self.switch.tm.held(),
            "discards": {"ingress": discards.ingress, "egress": discards.egress, "absent_port": discards.absent_port,
                         "clones": discards.clones, "loopback": discards.loopback},
            "digests": self.digests,
        })
    }
}

/// Packets by flow, in order; null where flows are not distinguished: none would be another answer.
fn by_flow(found: Result<Vec<(u32, Drops)>, String>) -> Value {
    let Ok(mut flows) = found else {
        return Value::Null;
    };
    flows.sort_unstable_by_key(|(flow, _)| *flow);
    flows.iter().map(|(flow, drops)| json!({"flow": flow, "packets": drops.packets, "bytes": drops.bytes})).collect()
}

/// A configuration that was read and found right, and where its results go.
struct Job {
    config: Config,
    path: PathBuf,
    out: PathBuf,
    seed: u64,
    switch: Switch,
    sources: Vec<Source>,
    changes: Vec<QueueConfig>,
}

impl Job {
    /// Reads a configuration and what it names. Nothing is written.
    fn read(path: PathBuf, out: PathBuf, seed: Option<u64>) -> Result<Self, Failure> {
        let config = Config::read(&path)?;
        let in_file = |failure: Failure| failure.within(&path.display().to_string());
        let seed = seed.unwrap_or(config.seed);
        let known: Vec<u16> = config.ports.iter().chain(&config.loopbacks).copied().collect();
        let switch = switch(&config, seed).map_err(in_file)?;
        let changes = schedule(&config, &known).map_err(in_file)?;
        let sources = config.inputs.iter().enumerate().map(|(number, input)| {
            let place = format!("inputs[{number}]");
            port_number(input.port, &known, &place)?;
            Source::open(input, &place, seed.wrapping_add(number as u64 + 1))
        });
        let sources = sources.collect::<Result<Vec<_>, _>>().map_err(in_file)?;
        Ok(Job { config, path, out, seed, switch, sources, changes })
    }

    /// Makes the directory and the captures.
    fn open(mut self) -> Result<Opened, Failure> {
        let out = self.out.display();
        std::fs::create_dir_all(&self.out).map_err(|error| Failure::usage(format!("{out}: {error}")))?;
        let sinks = Sinks::open(&self.config, &self.out);
        let sinks = sinks.map_err(|failure| failure.within(&self.path.display().to_string()))?;
        let whole = View { parsed: usize::MAX, shown: usize::MAX };
        let program = self.switch.forwarding().map(|forwarding| forwarding.pipeline.program());
        let view = program.map_or(whole, |program| View::new(&self.config, program));
        let mut heads = Earliest::default();
        heads.reserve(self.sources.len());
        self.sources.iter().enumerate().for_each(|(position, source)| heads.set(position, source.next_time()));
        let run = Run {
            switch: self.switch,
            sinks,
            sources: self.sources,
            heads,
            changes: self.changes.into_iter().peekable(),
            view,
            until_ns: self.config.until_ns.unwrap_or(u64::MAX),
            digests: 0,
        };
        Ok(Opened { run, inputs: self.config.inputs, out: self.out, seed: self.seed })
    }
}

/// A replay that can begin.
struct Opened {
    run: Run,
    inputs: Vec<InputConfig>,
    out: PathBuf,
    seed: u64,
}

impl Opened {
    /// Runs it and writes its summary. Returns what is to be said of it.
    fn execute(mut self) -> Result<String, Failure> {
        let started = Instant::now();
        self.run.execute()?;
        let seconds = started.elapsed().as_secs_f64();
        let path = self.out.join("summary.json");
        let failed = |error| Failure::internal(format!("{}: {error}", path.display()));
        // In one piece: a file takes every token of what is formatted into it by a system call of its own.
        std::fs::write(&path, format!("{:#}\n", self.run.summary(self.seed))).map_err(failed)?;
        let mut said = String::new();
        for (input, source) in self.inputs.iter().zip(&self.run.sources) {
            if let (Some(pcap), moved @ 1..) = (&input.pcap, source.moved) {
                let what = "frames are behind later ones: they came in as soon as those had";
                said += &format!("warning: {}: {moved} {what}\n", pcap.display());
            }
        }
        // Elapsed time is not part of the result, which depends on input and seed only.
        let packets: u64 = self.run.sources.iter().map(|source| source.packets).sum();
        Ok(said + &format!("{packets} frames in {seconds:.3} s ({:.2} million/s)", packets as f64 / seconds / 1e6))
    }
}

/// Where the results of each configuration go: of one into the directory that was given, of several into one of their name there.
fn places(args: &ReplayArgs) -> Result<Vec<(PathBuf, PathBuf)>, Failure> {
    if let [only] = &args.config[..] {
        return Ok(vec![(only.clone(), args.out.clone())]);
    }
    let mut places: Vec<(PathBuf, PathBuf)> = vec![];
    for config in &args.config {
        let out = args.out.join(config.file_stem().unwrap_or_default());
        if let Some((other, _)) = places.iter().find(|(_, taken)| *taken == out) {
            let (one, other) = (config.display(), other.display());
            return Err(Failure::usage(format!(
                "--config: {other} and {one} have one name, by which results are found"
            )));
        }
        places.push((config.clone(), out));
    }
    Ok(places)
}

/// Does the same with each, on a thread of its own; the first failure counts.
fn at_once<T: Send, R: Send>(items: Vec<T>, act: impl Fn(T) -> Result<R, Failure> + Sync) -> Result<Vec<R>, Failure> {
    std::thread::scope(|threads| {
        let started: Vec<_> = items.into_iter().map(|item| threads.spawn(|| act(item))).collect();
        let ended = started.into_iter().map(|thread| thread.join());
        ended.map(|end| end.unwrap_or_else(|_| Err(Failure::internal("a replay has ended early")))).collect()
    })
}

/// Runs the replays.
pub fn run(args: &ReplayArgs) -> Result<(), Failure> {
    memory::prefer_large_pages();
    // All are read before anything is written.
    let jobs = at_once(places(args)?, |(config, out)| Job::read(config, out, args.seed))?;
    let opened = jobs.into_iter().map(Job::open).collect::<Result<Vec<_>, _>>()?;
    let said = at_once(opened, Opened::execute)?;
    for (config, said) in args.config.iter().zip(said) {
        match args.config.len() {
            1 => eprintln!("{said}"),
            _ => eprintln!("{}: {said}", config.display()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_that_are_not_distinguished_are_not_none() {
        let drops = Drops { packets: 2, bytes: 142 };
        let row = |flow: u32| json!({"flow": flow, "packets": 2, "bytes": 142});
        assert_eq!(by_flow(Ok(vec![(9, drops), (4, drops)])), json!([row(4), row(9)]));
        assert_eq!(by_flow(Ok(vec![])), json!([]));
        assert_eq!(by_flow(Err("more than 1048576 flows".into())), Value::Null);
    }
}
