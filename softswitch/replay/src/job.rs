//! A replay from its configuration to its results.
// SPDX-License-Identifier: Apache-2.0
use std::path::PathBuf;
use std::time::Instant;

use narrows_replay_config::config::{Config, InputConfig, QueueConfig};
use narrows_replay_config::setup::{port_number, schedule, switch};
use narrows_switch::failure::Failure;
use narrows_switch::switch::{Switch, FIRST};

use crate::run::Run;
use crate::sink::Sinks;
use crate::source::Source;
use crate::summary::summary;
use crate::view::View;

/// A configuration that was read and found right, and where its results go.
pub struct Job {
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
    pub fn read(path: PathBuf, out: PathBuf, seed: Option<u64>) -> Result<Self, Failure> {
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
    pub fn open(mut self) -> Result<Opened, Failure> {
        let out = self.out.display();
        std::fs::create_dir_all(&self.out).map_err(|error| Failure::usage(format!("{out}: {error}")))?;
        let sinks = Sinks::open(&self.config, &self.out);
        let sinks = sinks.map_err(|failure| failure.within(&self.path.display().to_string()))?;
        let whole = View { parsed: usize::MAX, shown: usize::MAX };
        let program = self.switch.unit(FIRST).map(|unit| unit.pipeline.program());
        let view = program.map_or(whole, |program| View::new(&self.config, program));
        let until_ns = self.config.until_ns.unwrap_or(u64::MAX);
        let run = Run::new(self.switch, sinks, self.sources, self.changes, view, until_ns);
        Ok(Opened { run, inputs: self.config.inputs, out: self.out, seed: self.seed })
    }
}

/// A replay that can begin.
pub struct Opened {
    run: Run,
    inputs: Vec<InputConfig>,
    out: PathBuf,
    seed: u64,
}

impl Opened {
    /// Runs it and writes its summary. Returns what is to be said of it.
    pub fn execute(mut self) -> Result<String, Failure> {
        let started = Instant::now();
        self.run.execute()?;
        let seconds = started.elapsed().as_secs_f64();
        let path = self.out.join("summary.json");
        let failed = |error| Failure::internal(format!("{}: {error}", path.display()));
        // In one piece: a file takes every token of what is formatted into it by a system call of its own.
        std::fs::write(&path, format!("{:#}\n", summary(&self.run, self.seed))).map_err(failed)?;
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
