//! Transmission into a pipe in place of an interface: frames as a capture (pcap), with the time at which each leaves.
//!
//! The way through the kernel's network costs as much as all that is done to a packet in here, and whoever receives telemetry
//! does not need it.
// SPDX-License-Identifier: Apache-2.0
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use narrows_captures::Writer;
use narrows_drop_records::{DropRecord, FieldRecord, FRAME_BYTES};
use narrows_pipeline::Packet;

use super::transmit_counters::TransmitCounters;

/// As much as Linux lets a pipe hold by default (fs.pipe-max-size): what is written between two waits fits.
const PIPE_BYTES: libc::c_int = 1 << 20;
/// What may wait in here while the reader pauses, beside the pipe: about a second of reports at 10 Gbit/s. What comes after is
/// dropped.
const BACKLOG_BYTES: usize = 128 << 20;
/// Frames wait no longer than this, and twice as long if something is due. Each write wakes the reader, which takes the processor
/// from others.
const PATIENCE_NS: u64 = 10_000_000;
/// So many bytes do not wait for more.
const ENOUGH_BYTES: usize = 64 << 10;
/// About what a write of so many takes.
const WRITING_NS: u64 = 20_000;
/// A reader for whom the data path waits, and who takes nothing for so long, has ended: nothing waits for it any more.
const LOST_MS: libc::c_int = 5_000;

/// What happens where the pipe is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenFull {
    /// The data path waits for the reader, if there is one that reads: in virtual time that takes no time.
    Wait,
    /// Frames wait, and the latest are dropped at last.
    Keep,
}

/// The pipe, and what it had no room for.
#[derive(Debug)]
struct Outflow {
    pipe: File,
    when_full: WhenFull,
    backlog: Vec<u8>,
    /// How much of it was written.
    written: usize,
}

impl Outflow {
    fn waiting(&self) -> usize {
        self.backlog.len() - self.written
    }

    /// Writes what the pipe has room for, now or while it is waited for; returns how much that is.
    fn offer(pipe: &mut File, when_full: &mut WhenFull, bytes: &[u8]) -> io::Result<usize> {
        let mut written = 0;
        while written < bytes.len() {
            match pipe.write(&bytes[written..]) {
                Ok(more) => written += more,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => match when_full {
                    WhenFull::Wait if has_room_soon(pipe)? => {}
                    _ => {
                        *when_full = WhenFull::Keep;
                        break;
                    }
                },
                Err(error) => return Err(error),
            }
        }
        Ok(written)
    }
}

impl Write for Outflow {
    /// Takes everything: what the pipe has no room for waits behind what waits already.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.flush()?;
        let written = match self.waiting() {
            0 => Self::offer(&mut self.pipe, &mut self.when_full, bytes)?,
            _ => 0,
        };
        self.backlog.extend_from_slice(&bytes[written..]);
        Ok(bytes.len())
    }

    /// Writes of what waits as much as the pipe has room for.
    fn flush(&mut self) -> io::Result<()> {
        self.written += Self::offer(&mut self.pipe, &mut self.when_full, &self.backlog[self.written..])?;
        if self.written >= self.waiting() {
            self.backlog.drain(..std::mem::take(&mut self.written));
        }
        Ok(())
    }
}

/// Waits until a pipe has room; false if it has none for long.
fn has_room_soon(pipe: &File) -> io::Result<bool> {
    let mut waiting = libc::pollfd { fd: pipe.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
    loop {
        // SAFETY: one structure, which lives as long as the call.
        match unsafe { libc::poll(&mut waiting, 1, LOST_MS) } {
            0 => return Ok(false),
            1.. => return Ok(true),
            _ => match io::Error::last_os_error() {
                error if error.kind() == ErrorKind::Interrupted => {}
                error => return Err(error),
            },
        }
    }
}

/// Frames on their way into a pipe.
#[derive(Debug)]
pub struct Recorder {
    writer: Writer<Outflow>,
    /// When the oldest frame that waits was noticed.
    waiting_since: Option<u64>,
    counters: TransmitCounters,
    /// The last record of fields as a frame; kept for its memory.
    fields: Vec<u8>,
}

impl Recorder {
    /// Opens a named pipe, whether it has a reader yet or not.
    pub fn open(pipe: &Path, when_full: WhenFull) -> io::Result<Self> {
        let pipe = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(pipe)?;
        if !pipe.metadata()?.file_type().is_fifo() {
            return Err(io::Error::new(ErrorKind::InvalidInput, "it is not a pipe"));
        }
        // SAFETY: passes no memory. A pipe of the usual size does as well.
        unsafe { libc::fcntl(pipe.as_raw_fd(), libc::F_SETPIPE_SZ, PIPE_BYTES) };
        let outflow = Outflow { pipe, when_full, backlog: Vec::new(), written: 0 };
        Ok(Recorder {
            writer: Writer::new(outflow, 0),
            waiting_since: None,
            counters: TransmitCounters::default(),
            fields: Vec::new(),
        })
    }

    /// Adds a frame that leaves at `exit_ns`.
    #[inline]
    pub fn push(&mut self, exit_ns: u64, frame: &Packet) {
        if self.add(exit_ns, frame.bytes(), frame.frame_length()) {
            self.counters.packets += 1;
            self.counters.bytes += u64::from(frame.frame_length());
        }
    }

    /// Adds the record of a packet that was dropped, which does not count as one that is sent.
    pub fn push_drop(&mut self, record: &DropRecord) {
        self.add(record.timestamp, &record.encode(), FRAME_BYTES as u32);
    }

    /// The same with what watched fields had of a packet that has departed.
    pub fn push_fields(&mut self, record: &FieldRecord) {
        let mut frame = std::mem::take(&mut self.fields);
        record.encode(&mut frame);
        self.add(record.timestamp, &frame, frame.len() as u32);
        self.fields = frame;
    }

    /// Adds a frame if there is room; what does not get in is counted.
    #[inline]
    fn add(&mut self, time_ns: u64, bytes: &[u8], length: u32) -> bool {
        if self.writer.output().waiting() >= BACKLOG_BYTES {
            self.counters.drops += 1;
            return false;
        }
        let written = self.writer.write(time_ns, bytes, length);
        self.counters.errors += u64::from(written.is_err());
        written.is_ok()
    }

    fn waiting(&self) -> usize {
        self.writer.waiting() + self.writer.output().waiting()
    }

    /// Writes all that was added.
    pub fn flush(&mut self) {
        self.waiting_since = None;
        if self.waiting() > 0 && self.writer.flush().is_err() {
            self.counters.errors += 1;
        }
    }

    /// Writes what was added if it is much, or has waited for long and nothing is due for `idle_ns`. Returns whether that has
    /// taken time.
    #[inline]
    pub fn flush_if_due(&mut self, now_ns: u64, idle_ns: u64) -> bool {
        if self.waiting() == 0 {
            return false;
        }
        let waited_ns = now_ns.saturating_sub(*self.waiting_since.get_or_insert(now_ns));
        let is_due = waited_ns >= PATIENCE_NS && idle_ns >= WRITING_NS || waited_ns >= 2 * PATIENCE_NS;
        if self.writer.waiting() >= ENOUGH_BYTES || is_due {
            self.flush();
            return true;
        }
        false
    }

    /// When to call [`Recorder::flush_if_due`] at the latest; `None` if nothing waits.
    pub fn due(&self) -> Option<u64> {
        self.waiting_since.map(|since| since + PATIENCE_NS)
    }

    /// Counters so far.
    pub fn counters(&self) -> TransmitCounters {
        self.counters
    }
}

impl Drop for Recorder {
    /// The data path ends: what waits for more is all that there is.
    fn drop(&mut self) {
        self.flush();
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;
    use std::io::Read;
    use std::os::unix::ffi::OsStrExt;
    use std::path::PathBuf;

    use narrows_pipeline::PacketPool;

    use super::*;

    fn make_pipe(directory: &Path) -> PathBuf {
        let path = directory.join("pipe");
        let name = CString::new(path.as_os_str().as_bytes()).expect("name");
        // SAFETY: a string that ends with a zero and lives on.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        path
    }

    /// A recorder, and the other end of its pipe, which outlives the pipe's name.
    fn recording(when_full: WhenFull) -> (Recorder, File) {
        let directory = tempfile::tempdir().expect("directory");
        let path = make_pipe(directory.path());
        let recorder = Recorder::open(&path, when_full).expect("pipe");
        let reader = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&path).expect("the other end");
        (recorder, reader)
    }

    /// Reads what is there.
    fn read_all(pipe: &mut File, into: &mut Vec<u8>) {
        let mut part = [0; 1 << 16];
        while let Ok(bytes @ 1..) = pipe.read(&mut part) {
            into.extend_from_slice(&part[..bytes]);
        }
    }

    #[test]
    fn what_waits_is_written_at_the_end() {
        let (mut recorder, mut reader) = recording(WhenFull::Wait);
        recorder.push(1, &PacketPool::default().packet(&[7; 60]));
        recorder.flush_if_due(0, u64::MAX);
        let mut read = Vec::<u8>::new();
        read_all(&mut reader, &mut read);
        assert!(read.is_empty());
        drop(recorder);
        read_all(&mut reader, &mut read);
        assert!(read.ends_with(&[7; 60]));
    }

    #[test]
    fn writes_to_a_full_pipe_do_not_block_and_nothing_is_lost_until_the_backlog_is_full() {
        let (mut recorder, mut reader) = recording(WhenFull::Keep);
        let (mut pool, mut read) = (PacketPool::default(), Vec::new());
        // Three times the capacity of the pipe, with no reader.
        let frames = 3 * PIPE_BYTES as usize / 1_000;
        for number in 0..frames {
            recorder.push(number as u64, &pool.packet(&[number as u8; 984]));
            recorder.flush();
        }
        assert_eq!(recorder.counters().packets, frames as u64);
        while recorder.waiting() > 0 {
            read_all(&mut reader, &mut read);
            recorder.flush();
        }
        read_all(&mut reader, &mut read);
        let mut found = Vec::new();
        let mut capture = narrows_captures::Reader::new(&read[..]).expect("capture");
        let take = |frame: narrows_captures::Frame<'_>| {
            found.push((frame.time_ns, frame.bytes.len(), frame.bytes[983]));
            true
        };
        capture.for_each(take).expect("capture");
        let expected: Vec<_> = (0..frames).map(|number| (Some(number as u64), 984, number as u8)).collect();
        assert_eq!(found, expected);

        // As much as may wait, and what comes after that.
        while recorder.counters().drops == 0 {
            recorder.push(0, &pool.packet(&[0; 9_000]));
        }
        assert!(recorder.writer.output().waiting() < BACKLOG_BYTES + (1 << 20));
    }

    #[test]
    fn a_reader_is_waited_for_and_one_that_reads_no_more_is_not() {
        let (mut recorder, mut reader) = recording(WhenFull::Wait);
        let mut pool = PacketPool::default();
        let mut fill = |recorder: &mut Recorder| {
            for _ in 0..3 * PIPE_BYTES as usize / 1_000 {
                recorder.push(1, &pool.packet(&[7; 984]));
            }
            recorder.flush();
        };
        let reading = std::thread::spawn(move || {
            // More than the pipe takes, which comes only while this reads.
            let mut left = 2 * PIPE_BYTES as usize;
            let mut part = [0; 1 << 16];
            while left > 0 {
                left = left.saturating_sub(reader.read(&mut part).unwrap_or(0));
            }
            reader
        });
        fill(&mut recorder);
        assert_eq!(recorder.waiting(), 0);
        let _reader = reading.join().expect("the reader");
        let began = std::time::Instant::now();
        fill(&mut recorder);
        fill(&mut recorder);
        let waited = began.elapsed().as_millis() as libc::c_int;
        // Once, and not for every frame.
        assert!((LOST_MS..2 * LOST_MS).contains(&waited), "{waited} ms");
        assert!(recorder.waiting() > 3 * PIPE_BYTES as usize);
    }

    #[test]
    fn frames_are_written_together() {
        let directory = tempfile::tempdir().expect("directory");
        let path = make_pipe(directory.path());
        let mut recorder = Recorder::open(&path, WhenFull::Keep).expect("pipe");
        recorder.flush();
        let mut pool = PacketPool::default();
        assert_eq!((recorder.flush_if_due(5, u64::MAX), recorder.due()), (false, None));
        recorder.push(5, &pool.packet(&[5; 60]));
        assert!(!recorder.flush_if_due(10, u64::MAX));
        assert_eq!(recorder.due(), Some(10 + PATIENCE_NS));
        // Something is due on a link; then nothing is; then it is late.
        assert!(!recorder.flush_if_due(10 + PATIENCE_NS, WRITING_NS - 1));
        assert!(recorder.flush_if_due(10 + PATIENCE_NS, WRITING_NS));
        assert_eq!(recorder.due(), None);
        recorder.push(6, &pool.packet(&[5; 60]));
        assert!(!recorder.flush_if_due(10, 0));
        assert!(recorder.flush_if_due(10 + 2 * PATIENCE_NS, 0));
        for _ in 0..=ENOUGH_BYTES / 1_000 {
            recorder.push(7, &pool.packet(&[5; 1_000]));
        }
        assert!(recorder.flush_if_due(10, 0));
    }

    #[test]
    fn what_is_pushed_is_read_as_a_capture() {
        let directory = tempfile::tempdir().expect("directory");
        let path = make_pipe(directory.path());
        let mut recorder = Recorder::open(&path, WhenFull::Wait).expect("pipe");
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
        assert_eq!(Recorder::open(file.path(), WhenFull::Wait).expect_err("a file").to_string(), "it is not a pipe");
    }
}
