// SPDX-License-Identifier: Apache-2.0
//! Decodes a source in a separate thread and passes the records on in blocks.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{sync_channel, Receiver, SyncSender};

use crate::capture::file::{CaptureFile, End};
use crate::error::{Error, Result};
use crate::flow_keys::FlowKeys;
use crate::intake::FrameCounts;
use crate::telemetry::reader;
use crate::wire::{self, Decoder, Record};

/// Records in a block: enough that waking the other thread costs little, few enough that blocks stay in the last-level
/// cache.
const BLOCK_RECORDS: usize = 8192;
/// Blocks in transit between the two threads.
const BLOCKS: usize = 8;

/// Where reports come from.
pub enum Source {
    Capture { file: CaptureFile, port: u16 },
    Telemetry(Vec<PathBuf>),
}

/// What decoding has found besides the records.
#[derive(Default)]
pub struct Decoded {
    pub frames: FrameCounts,
    pub keys: FlowKeys,
    /// See [`Decoder::other_version`].
    pub other_version: Option<u8>,
    /// Byte at which a capture ends within a record.
    pub truncated_at: Option<u64>,
}

impl Source {
    /// Opens a capture file, a telemetry directory or a run directory; report files named in `skip` are left out.
    ///
    /// # Errors
    /// [`Error::Input`] if it is none of these.
    pub fn open(path: &Path, port: u16, skip: &[String]) -> Result<Self> {
        if path.is_dir() {
            let mut files = reader::report_files(path)?;
            files.retain(|file| {
                let name = file.file_name().unwrap_or_default();
                !skip.iter().any(|skipped| name == skipped.as_str())
            });
            return Ok(Source::Telemetry(files));
        }
        CaptureFile::open(path).map(|file| Source::Capture { file, port })
    }

    /// Decodes everything on a second thread while `take` works on this one; `take` may stop with an error.
    /// `empty_queue_delay` is subtracted from every report's queue delay.
    ///
    /// # Errors
    /// The first error of the two sides.
    pub fn decode(self, empty_queue_delay: u64, mut take: impl FnMut(&[Record]) -> Result<()>) -> Result<Decoded> {
        let (full_sender, full) = sync_channel::<Vec<Record>>(BLOCKS);
        let (empty_sender, empty) = sync_channel::<Vec<Record>>(BLOCKS);
        std::thread::scope(|scope| {
            let decoder = scope.spawn(move || self.decode_all(Blocks::new(full_sender, empty, empty_queue_delay)));
            let mut result = Ok(());
            for mut block in &full {
                result = take(&block);
                if result.is_err() {
                    break;
                }
                block.clear();
                // A full channel of empty blocks: this one is not needed any more.
                let _ = empty_sender.try_send(block);
            }
            drop(full);
            let decoded = decoder.join().map_err(|_| Error::Input("the decoder ended unexpectedly".into()))?;
            result.and(decoded)
        })
    }

    fn decode_all(self, mut blocks: Blocks) -> Result<Decoded> {
        let mut decoded = Decoded::default();
        match self {
            Source::Capture { mut file, port } => {
                let mut decoder = Decoder::new(port);
                let end = file.for_each(|frame| match decoder.decode(frame) {
                    Ok((record, inner)) => {
                        decoded.frames.accept(frame.len());
                        decoded.keys.observe(&record, inner);
                        blocks.push(record)
                    }
                    Err(reason) => {
                        decoded.frames.reject(frame.len(), reason);
                        true
                    }
                })?;
                decoded.other_version = decoder.other_version();
                if let End::Truncated { offset } = end {
                    decoded.truncated_at = Some(offset);
                }
            }
            Source::Telemetry(files) => {
                for file in files {
                    reader::for_each(&file, |record| match wire::check(&record.report) {
                        Ok(()) => {
                            decoded.frames.accept(0);
                            blocks.push(record)
                        }
                        // The collector never stores such a report: the file is damaged.
                        Err(reason) => {
                            decoded.frames.reject(0, reason);
                            true
                        }
                    })?;
                }
            }
        }
        blocks.flush();
        Ok(decoded)
    }
}

/// The decoder's end of the two channels.
struct Blocks {
    current: Vec<Record>,
    full: SyncSender<Vec<Record>>,
    empty: Receiver<Vec<Record>>,
    /// Time units of a queue delay that mean no wait.
    empty_queue_delay: u64,
}

impl Blocks {
    fn new(full: SyncSender<Vec<Record>>, empty: Receiver<Vec<Record>>, empty_queue_delay: u64) -> Self {
        Blocks { current: Vec::with_capacity(BLOCK_RECORDS), full, empty, empty_queue_delay }
    }

    /// False when the other side has stopped.
    #[inline]
    fn push(&mut self, mut record: Record) -> bool {
        let delay = &mut record.report.queue_delay;
        *delay = delay.saturating_sub(self.empty_queue_delay);
        self.current.push(record);
        self.current.len() < BLOCK_RECORDS || self.flush()
    }

    fn flush(&mut self) -> bool {
        let next = self.empty.try_recv().unwrap_or_else(|_| Vec::with_capacity(BLOCK_RECORDS));
        let block = std::mem::replace(&mut self.current, next);
        self.full.send(block).is_ok()
    }
}
