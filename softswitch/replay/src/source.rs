//! Inputs of a replay, merged in order of time.
// SPDX-License-Identifier: Apache-2.0
use std::fs::File;
use std::path::PathBuf;

use narrows_captures::ReadError;
use narrows_pipeline::{Packet, PacketPool};
use narrows_replay_config::config::InputConfig;
use narrows_switch::failure::Failure;
use narrows_switch::io::MAX_FRAME;

use crate::generate::{Generator, HEADERS};
use crate::mapped::{Head, MappedPcap};
use crate::streamed::Streamed;
use crate::view::View;

/// The latest time at which a frame of a capture comes in, 73 years: beyond it the switch's clock and the captures that
/// it writes (32 bits of seconds) would wrap.
const LATEST_NS: u64 = 1 << 61;

/// How a capture is read.
enum Frames {
    Mapped(MappedPcap),
    Streamed(Box<Streamed>),
}

impl Frames {
    fn open(file: File) -> Result<Self, ReadError> {
        if let Some(mapped) = MappedPcap::open(&file)? {
            return Ok(Frames::Mapped(mapped));
        }
        Ok(Frames::Streamed(Box::new(Streamed::new(file)?)))
    }

    /// The next frame of a mapped capture, if nothing is wrong with it. `shown`: bytes of it that will be read at most.
    #[inline(always)]
    fn sound(&mut self, shown: usize) -> Option<Head> {
        let Frames::Mapped(mapped) = self else {
            return None;
        };
        let head = mapped.sound()?;
        mapped.prefetch_behind(&head, shown);
        Some(head)
    }

    /// The next frame of any capture.
    fn next(&mut self) -> Result<Option<Head>, ReadError> {
        match self {
            Frames::Mapped(mapped) => mapped.next(),
            Frames::Streamed(streamed) => streamed.next(),
        }
    }

    /// The bytes of the frame whose head came last.
    #[inline(always)]
    fn bytes(&self, head: &Head) -> &[u8] {
        match self {
            Frames::Mapped(mapped) => mapped.bytes(head),
            Frames::Streamed(streamed) => streamed.bytes(),
        }
    }
}

/// A capture at work.
struct Capture {
    path: PathBuf,
    frames: Frames,
    /// Capture time of the first frame.
    origin_ns: Option<u64>,
    start_ns: u64,
}

enum Kind {
    Capture(Box<Capture>),
    Generator { generator: Box<Generator>, flow: u32 },
}

/// One input and its next frame.
pub struct Source {
    /// Ingress port.
    pub port: u16,
    kind: Kind,
    /// The next frame, with its time in the switch; `None` behind the last one.
    next: Option<Head>,
    /// The next frame, if it was made ready.
    ready: Option<Box<Packet>>,
    /// Frames so far.
    pub packets: u64,
    /// Bytes so far.
    pub bytes: u64,
    /// Frames that the capture does not hold whole; they were filled up with zeros.
    pub padded: u64,
    /// Frames that the capture has behind later ones: they came in as soon as those had.
    pub moved: u64,
}

impl Source {
    /// Opens the input. `place` names it in errors; `seed` is the generator's.
    pub fn open(config: &InputConfig, place: &str, seed: u64) -> Result<Self, Failure> {
        let kind = match (&config.pcap, &config.generator) {
            (Some(path), None) => {
                let broken = |error: &dyn std::fmt::Display| Failure::usage(format!("{}: {error}", path.display()));
                let file = File::open(path).map_err(|error| broken(&error))?;
                let frames = Frames::open(file).map_err(|error| broken(&error))?;
                let (path, start_ns) = (path.clone(), config.start_ns);
                Kind::Capture(Box::new(Capture { path, frames, origin_ns: None, start_ns }))
            }
            (None, Some(generator)) => {
                let generator = Generator::new(generator, seed)
                    .map_err(|error| Failure::usage(format!("{place}: generator: {error}")))?;
                Kind::Generator { generator: Box::new(generator), flow: 0 }
            }
            _ => return Err(Failure::usage(format!("{place}: one of pcap and generator is needed"))),
        };
        let mut source =
            Source { port: config.port, kind, next: None, ready: None, packets: 0, bytes: 0, padded: 0, moved: 0 };
        source.next = source.advance(0, 0)?;
        Ok(source)
    }

    /// Time of the next frame.
    #[inline]
    pub fn next_time(&self) -> Option<u64> {
        self.next.map(|head| head.time_ns)
    }

    /// The frame that comes next, after one at `last_ns`.
    #[inline(always)]
    fn advance(&mut self, last_ns: u64, shown: usize) -> Result<Option<Head>, Failure> {
        let capture = match &mut self.kind {
            Kind::Capture(capture) => capture,
            Kind::Generator { generator, flow } => {
                let wire_length = generator.frame_bytes();
                return Ok(generator.next().map(|(time_ns, next_flow)| {
                    *flow = next_flow;
                    Head { time_ns, wire_length, captured: wire_length, first: 0 }
                }));
            }
        };
        let place = || capture.path.display().to_string();
        let head = match capture.frames.sound(shown) {
            Some(head) => head,
            None => match capture.frames.next() {
                Ok(Some(head)) => head,
                Ok(None) => return Ok(None),
                Err(error) => return Err(Failure::usage(format!("{}: {error}", place()))),
            },
        };
        if !(14..=MAX_FRAME).contains(&head.wire_length) {
            let (place, length) = (place(), head.wire_length);
            return Err(Failure::usage(format!("{place}: a frame of {length} bytes: allowed are 14 to {MAX_FRAME}")));
        }
        let origin_ns = *capture.origin_ns.get_or_insert(head.time_ns);
        let time_ns = head.time_ns.saturating_sub(origin_ns).saturating_add(capture.start_ns);
        if time_ns > LATEST_NS {
            let (place, seconds) = (place(), time_ns / 1_000_000_000);
            return Err(Failure::usage(format!(
                "{place}: a frame at {seconds} s, the first one being at start_ns: allowed are {} s",
                LATEST_NS / 1_000_000_000
            )));
        }
        // Frames that are out of order in the file follow at once, and are counted.
        self.moved += u64::from(time_ns < last_ns || head.time_ns < origin_ns);
        Ok(Some(Head { time_ns: time_ns.max(last_ns), ..head }))
    }

    /// Takes the next frame, if there is one.
    #[inline(always)]
    pub fn take(&mut self, pool: &mut PacketPool, view: View) -> Result<Option<Box<Packet>>, Failure> {
        let Some(head) = self.next else {
            return Ok(None);
        };
        let packet = match self.ready.take() {
            Some(packet) => packet,
            None => self.read(head, pool, view),
        };
        self.packets += 1;
        self.bytes += head.wire_length as u64;
        self.padded += u64::from(head.captured < head.wire_length);
        self.next = self.advance(head.time_ns, view.shown)?;
        Ok(Some(packet))
    }

    /// Makes the next frame ready, for the switch to have a look at what it will need. `None` behind the last one.
    #[inline]
    pub fn prepare(&mut self, pool: &mut PacketPool, view: View) -> Option<&mut Packet> {
        let head = self.next?;
        if self.ready.is_none() {
            self.ready = Some(self.read(head, pool, view));
        }
        self.ready.as_deref_mut()
    }

    #[inline(always)]
    fn read(&self, head: Head, pool: &mut PacketPool, view: View) -> Box<Packet> {
        match &self.kind {
            Kind::Generator { generator, flow } => {
                let mut packet = pool.take_beginning(head.wire_length, view.held(HEADERS).max(HEADERS));
                generator.write(*flow, packet.bytes_mut());
                packet
            }
            Kind::Capture(capture) => {
                let mut packet = pool.take_beginning(head.wire_length, view.held(head.captured));
                let bytes = capture.frames.bytes(&head);
                let frame = packet.bytes_mut();
                let (captured, padding) = frame.split_at_mut(bytes.len().min(frame.len()));
                captured.copy_from_slice(&bytes[..captured.len()]);
                if !padding.is_empty() {
                    padding.fill(0);
                }
                packet
            }
        }
    }
}
