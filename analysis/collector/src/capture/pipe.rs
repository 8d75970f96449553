// SPDX-License-Identifier: Apache-2.0
//! Frames that come through a named pipe, as a capture (pcap), from a switch on the same machine.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use narrows_captures::Reader;

use crate::capture::file::failed;
use crate::capture::ring::Wake;
use crate::capture::signals::{poll, Signals};
use crate::error::{Error, Result};

/// A pipe, and how far the capture in it has been read.
pub struct Pipe {
    input: Option<Input>,
    reader: Option<Reader<Input>>,
    descriptor: libc::c_int,
    path: PathBuf,
}

/// Ends when the pipe is empty, though more may come.
struct Input(File);

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buffer) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
            result => result,
        }
    }
}

impl Pipe {
    /// Opens a pipe, whether it has a writer yet or not.
    ///
    /// # Errors
    /// [`Error::Input`] if there is no such pipe.
    pub fn open(path: &Path) -> Result<Self> {
        let refused = |what: String| Error::Input(format!("{}: {what}", path.display()));
        // Opened for writing too, so that it does not end when the last writer closes it.
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(libc::O_NONBLOCK);
        let file = options.open(path).map_err(|error| refused(error.to_string()))?;
        let kind = file.metadata().map_err(|error| Error::io(path, "examine", error))?;
        if !kind.file_type().is_fifo() {
            return Err(refused("it is not a pipe".into()));
        }
        Ok(Pipe { descriptor: file.as_raw_fd(), input: Some(Input(file)), reader: None, path: path.to_path_buf() })
    }

    /// Waits for frames; if there are none, for a signal or until `timeout_ms` have passed.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn wait(&self, signals: &Signals, timeout_ms: i32) -> Result<Option<Wake>> {
        let waiting = [self.descriptor, signals.stop.as_raw_fd(), signals.demand.as_raw_fd()];
        let ready = poll(waiting, timeout_ms);
        match ready.map_err(|error| Error::io(&self.path, "wait for", error))? {
            [0, 0, 0] => Ok(None),
            [0, 0, _] => Ok(Some(Wake::Demand)),
            [0, ..] => Ok(Some(Wake::Stop)),
            _ => Ok(Some(Wake::Packets)),
        }
    }

    /// Passes on every complete frame, until `take` returns false.
    ///
    /// # Errors
    /// [`Error::Input`] if the data is not a capture.
    pub fn drain(&mut self, mut take: impl FnMut(&[u8]) -> bool) -> Result<()> {
        let failed = |error| failed(&self.path, error);
        if let Some(input) = self.input.take() {
            self.reader = Some(Reader::new(input).map_err(failed)?);
        }
        if let Some(reader) = &mut self.reader {
            reader.for_each(|frame| take(frame.bytes)).map_err(failed)?;
        }
        Ok(())
    }
}
