// SPDX-License-Identifier: Apache-2.0
//! The path from a frame to the stored row, and the account of everything that did not get that far.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::error::{Error, Result};
use crate::flow_keys::{FlowId, FlowKeys};
use crate::intake::{FrameCounts, Sequencers};
use crate::telemetry::account::Account;
use crate::telemetry::keys_file;
use crate::telemetry::sink::TelemetrySink;
use crate::telemetry::writer::{Rotation, SCHEMA_VERSION};
use crate::wire::{report, Decoder, Reject};

/// Which reports are accepted, and how they are stored.
#[derive(Clone, Debug)]
pub struct Settings {
    pub directory: PathBuf,
    pub source: String,
    pub port: u16,
    /// Reports of bottlenecks from this index on are rejected.
    pub bottlenecks: u8,
    pub rotation: Rotation,
}

/// Receives frames and stores the reports in them.
pub struct Receiver {
    settings: Settings,
    decoder: Decoder,
    counts: FrameCounts,
    sequencers: Sequencers,
    keys: FlowKeys,
    sink: TelemetrySink,
    account: Account,
}

impl Receiver {
    /// Prepares the directory and starts the writer.
    ///
    /// # Errors
    /// As [`TelemetrySink::start`].
    pub fn start(settings: Settings) -> Result<Self> {
        let sink = TelemetrySink::start(&settings.directory, settings.rotation)?;
        let account = Account {
            collector_version: env!("CARGO_PKG_VERSION").to_string(),
            schema_version: SCHEMA_VERSION.to_string(),
            report_version: report::VERSION,
            source: settings.source.clone(),
            udp_port: settings.port,
            started_unix_s: unix_seconds(),
            ..Account::default()
        };
        Ok(Receiver {
            decoder: Decoder::new(settings.port),
            settings,
            counts: FrameCounts::default(),
            sequencers: Sequencers::default(),
            keys: FlowKeys::default(),
            sink,
            account,
        })
    }

    /// Takes a frame; false when nothing can be stored any more.
    #[inline]
    pub fn take(&mut self, frame: &[u8]) -> bool {
        let (record, inner) = match self.decoder.decode(frame) {
            Ok((record, _)) if record.report.bottleneck >= self.settings.bottlenecks => {
                self.counts.reject(frame.len(), Reject::Bottleneck);
                return true;
            }
            Ok(decoded) => decoded,
            Err(reason) => {
                self.counts.reject(frame.len(), reason);
                return true;
            }
        };
        self.counts.accept(frame.len());
        self.account.malformed_originals += u64::from(record.original.malformed);
        self.keys.observe(&record, inner);
        let mut stored = true;
        let (keys, sink) = (&mut self.keys, &mut self.sink);
        self.sequencers.push(&record, &mut |record| {
            keys.confirm(FlowId::of(&record.report));
            stored &= sink.push(record);
        });
        stored
    }

    /// Hands over what has been collected, so that it reaches the disk soon; false as in [`Self::take`].
    pub fn flush(&mut self) -> bool {
        self.sink.flush()
    }

    /// Stores the rest, the flow keys and the account.
    ///
    /// # Errors
    /// The first error of the writer, then of the tables; the account is written in any case if the disk allows it.
    pub fn finish(
        mut self,
        stop_reason: &str,
        ring_drops: u64,
        error: Option<Error>,
    ) -> Result<Account> {
        let (keys, sink) = (&mut self.keys, &mut self.sink);
        self.sequencers.finish(&mut |record| {
            keys.confirm(FlowId::of(&record.report));
            sink.push(record);
        });
        let stored = self.sink.finish();
        let keys = self.keys.sorted();
        let keys_error = keys_file::write(&self.settings.directory, &keys).err();
        let error = stored.error.or(error).or(keys_error);

        let mut account = self.account;
        account.ended_unix_s = unix_seconds();
        account.stop_reason = reason_of(error.as_ref(), stop_reason).to_string();
        account.error = error.as_ref().map(ToString::to_string);
        account.set_frames(&self.counts);
        account.set_sequences(self.sequencers.counts());
        account.kernel_ring_drops = ring_drops;
        account.rows = stored.rows;
        account.files = stored.files;
        account.rows_not_stored = stored.not_stored;
        account.flows = keys.len() as u64;
        account.flow_keys_overflow = self.keys.overflow;
        let written = account.write(&self.settings.directory);
        match error {
            Some(error) => Err(error),
            None => written.map(|()| account),
        }
    }
}

fn reason_of<'a>(error: Option<&Error>, stop_reason: &'a str) -> &'a str {
    match error {
        Some(Error::DiskFull { .. }) => "disk_full",
        Some(_) => "error",
        None => stop_reason,
    }
}

fn unix_seconds() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0.0, |elapsed| elapsed.as_secs_f64())
}
