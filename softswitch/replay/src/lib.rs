//! `narrows-softswitch replay`: the switch in virtual time, on captures and generated frames. The same input and seed give the
//! same bytes out.
// SPDX-License-Identifier: Apache-2.0
#![warn(missing_docs)]

mod generate;
mod job;
mod mapped;
mod memory;
mod run;
mod sink;
mod source;
mod streamed;
mod summary;
mod view;

use std::path::PathBuf;

use clap::Args;
use narrows_switch::failure::Failure;

use job::{Job, Opened};

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
    memory::prepare(args.config.len());
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
