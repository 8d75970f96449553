// SPDX-License-Identifier: Apache-2.0
//! Rows as an Arrow IPC stream while they come in, over TCP or into a file, for a program that analyses them live.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
use std::thread::JoinHandle;
use std::time::Duration;

use narrows_arrow_stream::RowStream;
use serde::Deserialize;

use crate::telemetry::columns::{columns, Columns, DESCRIPTIONS};
use crate::telemetry::observer::Observer;

/// Batches that may wait for the receiver; any more are left out of the stream.
const BATCHES_IN_FLIGHT: usize = 64;
/// A receiver that accepts nothing for this long has ended.
const PATIENCE: Duration = Duration::from_secs(10);

/// A connection to a receiver, over which nothing has been sent yet.
pub struct Listener {
    stream: TcpStream,
}

/// The sending end.
pub struct ArrowStream {
    batches: Option<SyncSender<Columns>>,
    sender: Option<JoinHandle<io::Result<u64>>>,
    left_out: u64,
}

#[derive(Deserialize)]
struct Description {
    unit: String,
}

impl Listener {
    /// Connects to host:port.
    ///
    /// # Errors
    /// If there is no listener.
    pub fn connect(address: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Listener { stream })
    }

    /// Starts sending.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn start(self) -> io::Result<ArrowStream> {
        let (batches, waiting) = sync_channel(BATCHES_IN_FLIGHT);
        let thread = std::thread::Builder::new().name("arrow".into());
        let sender = thread.spawn(move || send(self.stream, &waiting))?;
        Ok(ArrowStream { batches: Some(batches), sender: Some(sender), left_out: 0 })
    }
}

impl Observer for ArrowStream {
    fn observe(&mut self, rows: &Columns) {
        if rows.is_empty() {
            return;
        }
        let taken = self.batches.as_ref().is_some_and(|batches| batches.try_send(rows.clone()).is_ok());
        self.left_out += if taken { 0 } else { rows.len() as u64 };
    }
}

impl Drop for ArrowStream {
    /// Sends what waits, and returns what was sent.
    fn drop(&mut self) {
        drop(self.batches.take());
        let ended = self.sender.take().map(JoinHandle::join);
        let left_out = self.left_out;
        match ended {
            Some(Ok(Ok(rows))) => eprintln!("Arrow stream: {rows} reports, {left_out} left out"),
            Some(Ok(Err(error))) => eprintln!("Arrow stream: ended early ({error}), {left_out} reports left out"),
            _ => eprintln!("Arrow stream: ended early, {left_out} reports left out"),
        }
    }
}

/// Sends the whole stream; returns how many rows it has.
fn send(to: TcpStream, waiting: &Receiver<Columns>) -> io::Result<u64> {
    let mut stream = start(Box::new(to))?;
    let mut rows = 0;
    for batch in waiting {
        rows += batch.len() as u64;
        stream.write(batch.into_values())?;
        stream.flush()?;
    }
    stream.finish()?;
    Ok(rows)
}

/// The stream as a file: no row is left out, and on demand a line says how many bytes are complete.
pub struct ArrowFile {
    file: File,
    stream: RowStream,
    rows: u64,
}

impl ArrowFile {
    /// Creates the file.
    ///
    /// # Errors
    /// If it exists already, or cannot be created.
    pub fn create(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().write(true).create_new(true).open(path)?;
        let stream = start(Box::new(file.try_clone()?))?;
        Ok(ArrowFile { file, stream, rows: 0 })
    }

    fn write(&mut self, rows: &Columns) -> io::Result<()> {
        self.rows += rows.len() as u64;
        self.stream.write(rows.clone().into_values())
    }

    /// Flushes everything to the disk, so that readers on other machines see it too; returns the file's length.
    fn complete(&mut self) -> io::Result<u64> {
        self.stream.flush()?;
        self.file.sync_data()?;
        // The stream writes by the same open file, and so moves this position.
        self.file.stream_position()
    }
}

impl Observer for ArrowFile {
    /// A batch without rows comes from a caller that waits until everything before it is written.
    fn observe(&mut self, rows: &Columns) {
        let result = if rows.is_empty() { self.complete().map(Some) } else { self.write(rows).map(|()| None) };
        let mut out = io::stdout().lock();
        // A closed stdout only means that nothing reads the line.
        let _ = match result {
            Ok(None) => Ok(()),
            Ok(Some(bytes)) => writeln!(out, "{} reports in {bytes} bytes", self.rows).and_then(|()| out.flush()),
            Err(error) => writeln!(out, "failed: {error}").and_then(|()| out.flush()),
        };
    }
}

/// Begins a stream with the columns' names and units.
fn start(to: Box<dyn Write + Send>) -> io::Result<RowStream> {
    let mut described: HashMap<String, Description> = serde_json::from_str(DESCRIPTIONS)?;
    let columns = columns().into_iter().map(|column| {
        let description = described.remove(column.name);
        (column, description.map(|description| description.unit))
    });
    RowStream::start(to, columns.collect())
}
