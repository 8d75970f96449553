// SPDX-License-Identifier: Apache-2.0
//! `narrows-collector convert`: reports from a capture file into Parquet.

use std::fs;
use std::net::SocketAddrV4;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::capture::file::{CaptureFile, End};
use crate::intake::no_reports;
use crate::live::Live;
use crate::receiver::{Receiver, Settings};
use crate::telemetry::account::{self, Account};
use crate::telemetry::keys_file;
use crate::telemetry::writer::Rotation;
use crate::wire::BOTTLENECKS;
use crate::{Error, Result};

/// What is accepted and how it is stored: the same for live reports and files.
#[derive(Args)]
pub struct StorageArgs {
    /// UDP destination port of the reports.
    #[arg(long, default_value_t = 5500)]
    pub port: u16,
    /// Address and UDP port of the switch: reports of others are counted as bad (any, if not given).
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub switch: Option<SocketAddrV4>,
    /// Reports of bottlenecks from this index on are counted as bad.
    #[arg(long, default_value_t = BOTTLENECKS as u8, value_parser = clap::value_parser!(u8).range(1..=BOTTLENECKS as i64))]
    pub bottleneck_count: u8,
    /// Rows after which a new file is begun.
    #[arg(long, default_value_t = 16 << 20, value_parser = clap::value_parser!(u64).range(1..))]
    rotate_rows: u64,
    /// MiB after which a new file is begun; a row group is not divided.
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..))]
    rotate_mib: u32,
    /// Seconds after which a new file is begun: the most that a crash can cost.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    rotate_seconds: u32,
    /// Rows in a row group.
    #[arg(long, default_value_t = 262_144, value_parser = clap::value_parser!(u32).range(1024..=4_194_304))]
    row_group: u32,
}

impl StorageArgs {
    /// The rotation that the arguments ask for.
    pub fn rotation(&self) -> Rotation {
        Rotation {
            rows: self.rotate_rows,
            bytes: (self.rotate_mib as usize) << 20,
            age: Duration::from_secs(u64::from(self.rotate_seconds)),
            row_group: self.row_group as usize,
        }
    }
}

#[derive(Args)]
pub struct ConvertArgs {
    /// A pcap (microseconds or nanoseconds, either byte order) or pcapng file.
    source: PathBuf,
    /// Directory for the telemetry; must hold none yet.
    #[arg(long)]
    out: PathBuf,
    #[command(flatten)]
    storage: StorageArgs,
}

/// Converts the file; a truncated one up to its last complete record.
pub fn run(args: ConvertArgs) -> Result<()> {
    let mut capture = CaptureFile::open(&args.source)?;
    let is_new = !args.out.exists();
    let settings = Settings {
        directory: args.out.clone(),
        source: args.source.display().to_string(),
        port: args.storage.port,
        switch: args.storage.switch,
        bottlenecks: args.storage.bottleneck_count,
        rotation: args.storage.rotation(),
        watched: Vec::new(),
    };
    let mut receiver = Receiver::start(settings, Live::default())?;
    let (reason, error) = match capture.for_each(|frame| receiver.take(frame)) {
        Ok(End::Complete | End::Stopped) => ("end_of_file", None),
        Ok(End::Truncated { offset }) => {
            eprintln!(
                "warning: {} ends within a record at byte {offset}; everything before it is used",
                args.source.display()
            );
            ("truncated_file", None)
        }
        Err(error) => ("error", Some(error)),
    };
    let other_version = receiver.other_version();
    let account = receiver.finish(reason, 0, error)?;
    print_summary(&account);
    if account.bottlenecks.is_empty() {
        // So that the directory is as before for another attempt, with another port.
        for name in [account::FILE_NAME, keys_file::FILE_NAME] {
            let path = args.out.join(name);
            fs::remove_file(&path).map_err(|e| Error::io(&path, "remove", e))?;
        }
        if is_new {
            fs::remove_dir(&args.out).map_err(|e| Error::io(&args.out, "remove", e))?;
        }
        let bad = account.bad.values().sum();
        return Err(no_reports(&args.source, args.storage.port, account.frames, bad, other_version));
    }
    Ok(())
}

/// One line a bottleneck on stderr.
pub fn print_summary(account: &Account) {
    for (index, bottleneck) in &account.bottlenecks {
        eprintln!(
            "bottleneck {index}: {} reports, {} lost, {} duplicates, {} reordered, {} late, {} implausible",
            bottleneck.reports,
            bottleneck.lost,
            bottleneck.duplicates,
            bottleneck.reordered,
            bottleneck.late,
            bottleneck.implausible
        );
    }
    let bad: u64 = account.bad.values().sum();
    if bad > 0 || account.kernel_ring_drops > 0 {
        eprintln!("{bad} bad frames, {} dropped by the kernel", account.kernel_ring_drops);
    }
}
