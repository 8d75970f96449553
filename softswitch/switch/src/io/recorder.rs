//! Transmission into a pipe in place of an interface: frames as a capture (pcap), with the time at which each leaves.
//!
//! In virtual time the way through the kernel costs as much as all that is done to a packet in here, and whoever receives
//! telemetry does not need it.
// SPDX-License-Identifier: Apache-2.0
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use narrows_captures::Writer;
use narrows_pipeline::Packet;

use super::transmit_counters::TransmitCounters;

/// As much as Linux lets a pipe hold by default (fs.pipe-max-size): what is written between two waits fits.
const PIPE_BYTES: libc::c_int = 1 << 20;

/// Frames on their way into a pipe.
#[derive(Debug)]
pub struct Recorder {
    writer: Writer<File>,
    waiting: bool,
    counters: TransmitCounters,
}

impl Recorder {
    /// Opens a named pipe, whether it has a reader yet or not. A write blocks while it is full.
    pub fn open(pipe: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(pipe)?;
        if !file.metadata()?.file_type().is_fifo() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a pipe"));
        }
        // SAFETY: passes no memory. A pipe of the usual size does as well.
        unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETPIPE_SZ, PIPE_BYTES) };
        Ok(Recorder { writer: Writer::new(file, 0), waiting: false, counters: TransmitCounters::default() })
    }

    /// Adds a frame that leaves at `exit_ns`.
    #[inline]
    pub fn push(&mut self, exit_ns: u64, frame: &Packet) {
        self.waiting = true;
        match self.writer.write(exit_ns, frame.bytes(), frame.frame_length()) {
            Ok(()) => {
                self.counters.packets += 1;
                self.counters.bytes += u64::from(frame.frame_length());
            }
            Err(_) => self.counters.errors += 1,
        }
    }

    /// Writes all that was added.
    pub fn flush(&mut self) {
        if std::mem::take(&mut self.waiting) && self.writer.flush().is_err() {
            self.counters.errors += 1;
        }
    }

    /// Counters so far.
    pub fn counters(&self) -> TransmitCounters {
        self.counters
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;
    use std::io::Read;
    use std::os::unix::ffi::OsStrExt;

    use narrows_pipeline::PacketPool;

    use super::*;

    #[test]
    fn what_is_pushed_is_read_as_a_capture() {
        let directory = tempfile::tempdir().expect("directory");
        let path = directory.path().join("pipe");
        let name = CString::new(path.as_os_str().as_bytes()).expect("name");
        // SAFETY: a string that ends with a zero and lives on.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        let mut recorder = Recorder::open(&path).expect("pipe");
        let mut pool = PacketPool::default();
        recorder.push(5, &pool.packet(&[5; 60]));
        recorder.push(1_000_000_007, &pool.packet(&[7; 1514]));
        recorder.flush();
        assert_eq!((recorder.counters().packets, recorder.counters().bytes), (2, 1574));
        let mut read = vec![0; 24 + 16 + 60 + 16 + 1514];
        File::open(&path).and_then(|mut file| file.read_exact(&mut read)).expect("frames");
        let mut frames = Vec::new();
        let mut reader = narrows_captures::Reader::new(&read[..]).expect("capture");
        let take = |frame: narrows_captures::Frame<'_>| {
            frames.push((frame.time_ns, frame.bytes.len(), frame.bytes[0]));
            true
        };
        reader.for_each(take).expect("capture");
        assert_eq!(frames, [(Some(5), 60, 5), (Some(1_000_000_007), 1514, 7)]);
    }

    #[test]
    fn a_file_is_no_pipe() {
        let file = tempfile::NamedTempFile::new().expect("file");
        assert_eq!(Recorder::open(file.path()).expect_err("a file").to_string(), "it is not a pipe");
    }
}
