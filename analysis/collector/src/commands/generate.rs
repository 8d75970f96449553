// SPDX-License-Identifier: Apache-2.0
//! `narrows-collector generate`: a synthetic capture with its truth, for tests and benchmarks.

use std::fs::File;
use std::path::PathBuf;

use clap::Args;

use crate::generate::{pcap, Scenario};
use crate::{Error, Result};

#[derive(Args)]
pub struct GenerateArgs {
    /// The pcap file to write.
    out: PathBuf,
    /// JSON file for the model's ground truth.
    #[arg(long)]
    truth: Option<PathBuf>,
    #[command(flatten)]
    scenario: Scenario,
}

/// Writes the capture and, if asked for, the truth.
pub fn run(args: GenerateArgs) -> Result<()> {
    let mut out = File::create(&args.out).map_err(|e| Error::io(&args.out, "create", e))?;
    let truth = pcap(&args.scenario, &mut out).map_err(|e| Error::io(&args.out, "write", e))?;
    if let Some(path) = args.truth {
        let text = serde_json::to_string_pretty(&truth).map_err(|e| narrows_tables::Error::format(&path, e))?;
        std::fs::write(&path, text + "\n").map_err(|e| Error::io(&path, "write", e))?;
    }
    Ok(())
}
