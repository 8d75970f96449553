// SPDX-License-Identifier: Apache-2.0
//! Passes batches of decoded reports to a writer thread, so that a slow disk does not stop reception.

use std::path::Path;
use std::sync::mpsc::{sync_channel, Receiver, RecvTimeoutError, SyncSender};
use std::thread::JoinHandle;
use std::time::Duration;

use super::columns::{Columns, RowBlock};
use super::observer::{observe_all, Observer};
use super::writer::{Rotation, TelemetryWriter};
use crate::error::{Error, Result};
use crate::wire::Record;

/// Rows in a batch.
const BATCH_ROWS: usize = 16 << 10;
/// Batches that may wait for the disk; with the batch size this bounds the memory.
const BATCHES_IN_FLIGHT: usize = 32;
const SHOW_CHECK: Duration = Duration::from_secs(1);

/// Result of a finished sink.
#[derive(Debug, Default)]
pub struct Stored {
    pub rows: u64,
    pub files: u32,
    /// Rows received that are in no file.
    pub not_stored: u64,
    pub error: Option<Error>,
}

/// The receiving side's end of the writer thread.
pub struct TelemetrySink {
    /// The latest rows, not yet in `columns`.
    block: RowBlock,
    columns: Columns,
    sender: Option<SyncSender<Columns>>,
    writer: JoinHandle<(u64, u32, Option<Error>)>,
    rows: u64,
}

impl TelemetrySink {
    /// Starts a writer of `directory`; `observers` see every batch before it.
    ///
    /// # Errors
    /// As [`TelemetryWriter::create`]; also if no thread can be started.
    pub fn start(directory: &Path, rotation: Rotation, observers: Vec<Box<dyn Observer>>) -> Result<Self> {
        let writer = TelemetryWriter::create(directory, rotation)?;
        let (sender, receiver) = sync_channel(BATCHES_IN_FLIGHT);
        let thread = std::thread::Builder::new().name("telemetry-writer".into());
        let writer = thread.spawn(move || write_all(writer, &receiver));
        let writer = writer.map_err(|e| Error::io(directory, "start the writer thread for", e))?;
        let sender = if observers.is_empty() { sender } else { observed(directory, observers, sender)? };
        Ok(TelemetrySink {
            block: RowBlock::default(),
            columns: Columns::with_capacity(BATCH_ROWS),
            sender: Some(sender),
            writer,
            rows: 0,
        })
    }

    /// Adds a row; false when the writer has stopped with an error.
    #[inline]
    pub fn push(&mut self, record: &Record) -> bool {
        self.rows += 1;
        if self.block.push(record) {
            return true;
        }
        self.columns.append(&mut self.block);
        self.columns.len() < BATCH_ROWS || self.flush()
    }

    /// Passes on the rows collected so far; false when the writer has stopped with an error.
    pub fn flush(&mut self) -> bool {
        self.columns.append(&mut self.block);
        if self.columns.is_empty() {
            return self.sender.is_some();
        }
        let batch = std::mem::replace(&mut self.columns, Columns::with_capacity(BATCH_ROWS));
        if let Some(sender) = &self.sender {
            if sender.send(batch).is_ok() {
                return true;
            }
        }
        self.sender = None;
        false
    }

    /// Passes on a batch without rows: when observers receive it, they have seen all earlier rows. False as [`Self::flush`].
    pub fn mark(&mut self) -> bool {
        self.sender.as_ref().is_some_and(|sender| sender.send(Columns::default()).is_ok())
    }

    /// Stores the rest and waits for the writer.
    pub fn finish(mut self) -> Stored {
        self.flush();
        drop(self.sender.take());
        match self.writer.join() {
            Ok((rows, files, error)) => Stored { rows, files, not_stored: self.rows - rows, error },
            Err(_) => Stored {
                not_stored: self.rows,
                error: Some(Error::Input("the writer thread ended unexpectedly".into())),
                ..Stored::default()
            },
        }
    }
}

/// Puts observers before the writer's end of the channel.
fn observed(
    directory: &Path,
    observers: Vec<Box<dyn Observer>>,
    to: SyncSender<Columns>,
) -> Result<SyncSender<Columns>> {
    let (sender, receiver) = sync_channel(BATCHES_IN_FLIGHT);
    let thread = std::thread::Builder::new().name("observers".into());
    let started = thread.spawn(move || observe_all(observers, &receiver, &to));
    started.map_err(|e| Error::io(directory, "start the observers' thread for", e))?;
    Ok(sender)
}

fn write_all(mut writer: TelemetryWriter, receiver: &Receiver<Columns>) -> (u64, u32, Option<Error>) {
    let result = loop {
        let step = match receiver.recv_timeout(SHOW_CHECK) {
            Ok(columns) => writer.write(columns),
            Err(RecvTimeoutError::Timeout) => writer.show_if_due(),
            Err(RecvTimeoutError::Disconnected) => break writer.close(),
        };
        if step.is_err() {
            break step;
        }
    };
    (writer.rows(), writer.files(), result.err())
}
