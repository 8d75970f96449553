// SPDX-License-Identifier: Apache-2.0
//! The path from a frame to the stored row, and the counts of everything that did not get that far.

use std::net::SocketAddrV4;
use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::time::{SystemTime, UNIX_EPOCH};

use narrows_drop_records::{DropRecord, FieldRecord};

use crate::error::{Error, Result};
use crate::flow_keys::{ConfirmedFlows, FlowId, FlowKey, FlowKeys};
use crate::intake::{FrameCounts, Sequencers};
use crate::live::{Live, Postcards, Shared};
use crate::telemetry::account::Account;
use crate::telemetry::drops_file::Drops;
use crate::telemetry::fields_file::Fields;
use crate::telemetry::keys_file;
use crate::telemetry::observer::Observer;
use crate::telemetry::rows_file::RowsFile;
use crate::telemetry::sink::TelemetrySink;
use crate::telemetry::writer::{Rotation, SCHEMA_VERSION};
use crate::wire::{report, Decoder, Path, Record, Reject};

/// Which reports are accepted and how they are stored.
#[derive(Clone, Debug)]
pub struct Settings {
    pub directory: PathBuf,
    pub source: String,
    pub port: u16,
    /// The sender; `None`: any.
    pub switch: Option<SocketAddrV4>,
    /// Reports of bottlenecks from this index on are rejected.
    pub bottlenecks: u8,
    pub rotation: Rotation,
    /// Fields of metadata that the switch records of each packet.
    pub watched: Vec<&'static str>,
}

/// Turns the frames of one ring, or of a file, into reports.
pub struct Intake {
    decoder: Decoder,
    bottlenecks: u8,
    counts: FrameCounts,
    malformed: u64,
    keys: FlowKeys,
    postcards: Option<Postcards>,
}

impl Intake {
    /// An intake without any frame yet.
    pub fn new(settings: &Settings, announce: Option<Sender<(FlowId, FlowKey)>>, postcards: Option<Postcards>) -> Self {
        Intake {
            decoder: Decoder::new(Path { port: settings.port, switch: settings.switch }),
            bottlenecks: settings.bottlenecks,
            counts: FrameCounts::default(),
            malformed: 0,
            keys: FlowKeys::announced(announce),
            postcards,
        }
    }

    /// The report in a frame; a frame without one is counted.
    #[inline]
    pub fn take(&mut self, frame: &[u8]) -> Option<Record> {
        let (record, inner) = match self.decoder.decode(frame) {
            Ok((record, _)) if record.report.bottleneck >= self.bottlenecks => {
                self.counts.reject(frame.len(), Reject::Bottleneck);
                return None;
            }
            Ok(decoded) => decoded,
            Err(reason) => {
                self.counts.reject(frame.len(), reason);
                return None;
            }
        };
        self.counts.accept(frame.len());
        self.malformed += u64::from(record.original.malformed);
        self.keys.observe(&record, inner);
        if let Some(postcards) = &mut self.postcards {
            postcards.send(&record, inner);
        }
        Some(record)
    }
}

/// Puts reports in order and stores them.
pub struct Store {
    settings: Settings,
    sequencers: Sequencers,
    confirmed: ConfirmedFlows,
    sink: TelemetrySink,
    drops: RowsFile<Drops>,
    watched: RowsFile<Fields>,
    /// The first of these two tables.
    rows_error: Option<Error>,
    account: Account,
    metrics: Option<Shared>,
}

impl Store {
    /// Prepares the directory and starts the writer.
    ///
    /// # Errors
    /// As [`TelemetrySink::start`].
    pub fn start(settings: Settings, observers: Vec<Box<dyn Observer>>, metrics: Option<Shared>) -> Result<Self> {
        let sink = TelemetrySink::start(&settings.directory, settings.rotation, observers)?;
        let account = Account {
            collector_version: env!("CARGO_PKG_VERSION").to_string(),
            schema_version: SCHEMA_VERSION.to_string(),
            report_version: report::VERSION,
            source: settings.source.clone(),
            udp_port: settings.port,
            started_unix_s: unix_seconds(),
            ..Account::default()
        };
        let (sequencers, confirmed) = (Sequencers::default(), ConfirmedFlows::default());
        let drops = RowsFile::new(&settings.directory, Drops);
        let watched = RowsFile::new(&settings.directory, Fields { names: settings.watched.clone() });
        Ok(Store { settings, sequencers, confirmed, sink, drops, watched, rows_error: None, account, metrics })
    }

    /// Stores a report; false when nothing can be stored any more.
    #[inline]
    pub fn push(&mut self, record: &Record) -> bool {
        let mut stored = true;
        let (confirmed, sink) = (&mut self.confirmed, &mut self.sink);
        self.sequencers.push(record, &mut |record| {
            confirmed.add(FlowId::of(&record.report));
            stored &= sink.push(record);
        });
        stored
    }

    /// Stores the record of a drop; false as in [`Self::push`].
    pub fn push_drop(&mut self, record: &DropRecord) -> bool {
        if let Some(metrics) = &self.metrics {
            metrics.add_drop(record);
        }
        self.account.drop_records += 1;
        let pushed = self.drops.push(*record);
        self.note(pushed)
    }

    /// Stores what watched fields had of a packet; false as in [`Self::push`].
    fn push_fields(&mut self, record: FieldRecord) -> bool {
        let expected = self.settings.watched.len();
        let pushed = match record.values.len() {
            found if found == expected => self.watched.push(record),
            found => Err(Error::Input(format!("the switch records {found} fields of metadata, not {expected}"))),
        };
        self.note(pushed)
    }

    /// Keeps the first error of a table; false if there is one.
    fn note(&mut self, pushed: Result<()>) -> bool {
        match pushed {
            Ok(()) => true,
            Err(error) => {
                self.rows_error.get_or_insert(error);
                false
            }
        }
    }

    /// Passes on what has been collected, so that it reaches the disk soon; false as in [`Self::push`].
    pub fn flush(&mut self) -> bool {
        if let Some(metrics) = &self.metrics {
            metrics.set_counts(self.sequencers.counts());
        }
        self.sink.flush()
    }

    /// Passes on what has been collected, and notifies the watcher; false as in [`Self::push`].
    pub fn show(&mut self) -> bool {
        self.flush() && self.sink.mark()
    }

    /// Stores the rest, the flow keys and the account of all intakes.
    ///
    /// # Errors
    /// The first error of the writer, then of the tables; the account is written in any case if the disk allows it.
    pub fn finish(
        mut self,
        intakes: Vec<Intake>,
        stop_reason: &str,
        ring_drops: u64,
        error: Option<Error>,
    ) -> Result<Account> {
        let (confirmed, sink) = (&mut self.confirmed, &mut self.sink);
        self.sequencers.finish(&mut |record| {
            confirmed.add(FlowId::of(&record.report));
            sink.push(record);
        });
        let stored = self.sink.finish();
        let (mut counts, mut keys) = (FrameCounts::default(), FlowKeys::default());
        let mut account = self.account;
        for intake in intakes {
            counts.merge(&intake.counts);
            account.malformed_originals += intake.malformed;
            keys.merge(intake.keys);
            if let Some((sent, not_sent)) = intake.postcards.map(|postcards| postcards.counts()) {
                eprintln!("INT: {sent} postcards, {not_sent} not sent");
            }
        }
        let overflow = keys.overflow;
        let keys = keys.of_flows(self.confirmed.flows());
        let keys_error = keys_file::write(&self.settings.directory, &keys).err();
        let (drops_error, watched_error) = (self.drops.finish().err(), self.watched.finish().err());
        let error = stored.error.or(error).or(keys_error).or(self.rows_error).or(drops_error).or(watched_error);

        account.ended_unix_s = unix_seconds();
        account.stop_reason = reason_of(error.as_ref(), stop_reason).to_string();
        account.error = error.as_ref().map(ToString::to_string);
        account.set_frames(&counts);
        account.set_sequences(self.sequencers.counts());
        account.kernel_ring_drops = ring_drops;
        account.rows = stored.rows;
        account.files = stored.files;
        account.rows_not_stored = stored.not_stored;
        account.flows = keys.len() as u64;
        account.flow_keys_overflow = overflow;
        let written = account.write(&self.settings.directory);
        match error {
            Some(error) => Err(error),
            None => written.map(|()| account),
        }
    }
}

/// One intake and its store: frames that come in one order.
pub struct Receiver {
    intake: Intake,
    store: Store,
}

impl Receiver {
    /// Prepares the directory and starts the writer.
    ///
    /// # Errors
    /// As [`TelemetrySink::start`].
    pub fn start(settings: Settings, live: Live) -> Result<Self> {
        let intake = Intake::new(&settings, live.announce, live.postcards);
        Ok(Receiver { intake, store: Store::start(settings, live.observers, live.metrics)? })
    }

    /// Stores a frame's report, or the record of a drop or of watched fields; false when nothing can be stored any more.
    #[inline]
    pub fn take(&mut self, frame: &[u8]) -> bool {
        if let Some(record) = DropRecord::decode(frame) {
            return self.store.push_drop(&record);
        }
        if let Some(record) = FieldRecord::decode(frame) {
            return self.store.push_fields(record);
        }
        match self.intake.take(frame) {
            Some(record) => self.store.push(&record),
            None => true,
        }
    }

    /// See [`Decoder::other_version`].
    pub fn other_version(&self) -> Option<u8> {
        self.intake.decoder.other_version()
    }

    /// See [`Store::flush`].
    pub fn flush(&mut self) -> bool {
        self.store.flush()
    }

    /// See [`Store::show`].
    pub fn show(&mut self) -> bool {
        self.store.show()
    }

    /// See [`Store::finish`].
    ///
    /// # Errors
    /// As there.
    pub fn finish(self, stop_reason: &str, ring_drops: u64, error: Option<Error>) -> Result<Account> {
        self.store.finish(vec![self.intake], stop_reason, ring_drops, error)
    }
}

fn reason_of<'a>(error: Option<&Error>, stop_reason: &'a str) -> &'a str {
    match error {
        Some(Error::File(narrows_tables::Error::DiskFull { .. })) => "disk_full",
        Some(_) => "error",
        None => stop_reason,
    }
}

fn unix_seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |elapsed| elapsed.as_secs_f64())
}
