//! Inputs of a replay, merged in order of time.
// SPDX-License-Identifier: Apache-2.0
use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;

use narrows_pipeline::{Packet, PacketPool};

use super::config::InputConfig;
use super::generate::{Generator, HEADERS};
use super::mapped::{MappedPcap, Place};
use super::pcap::{PcapError, Reader, Record};
use crate::failure::Failure;
use crate::io::MAX_FRAME;

/// How a capture is read, with its next frame.
enum Frames {
    Mapped(MappedPcap, Option<Place>),
    Streamed(Box<Reader<BufReader<File>>>, Record),
}

impl Frames {
    fn open(file: File) -> Result<Self, PcapError> {
        if let Some(mapped) = MappedPcap::open(&file)? {
            return Ok(Frames::Mapped(mapped, None));
        }
        let reader = Reader::new(BufReader::with_capacity(1 << 18, file))?;
        Ok(Frames::Streamed(Box::new(reader), Record::default()))
    }

    /// Time and wire length of the next frame. `visible`: bytes of it that will be read.
    #[inline]
    fn next(&mut self, visible: usize) -> Result<Option<(u64, usize)>, PcapError> {
        match self {
            Frames::Mapped(mapped, place) => {
                *place = mapped.next()?;
                if let Some(place) = place {
                    mapped.prefetch_behind(place, visible);
                }
                Ok(place.map(|place| (place.time_ns, place.wire_length)))
            }
            Frames::Streamed(reader, record) => {
                let more = reader.next(record)?;
                Ok(more.then_some((record.time_ns, record.wire_length)))
            }
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Frames::Mapped(mapped, place) => place.as_ref().map_or(&[], |place| mapped.bytes(place)),
            Frames::Streamed(_, record) => &record.bytes,
        }
    }
}

/// A capture at work.
struct Capture {
    path: PathBuf,
    frames: Frames,
    wire_length: usize,
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
    time_ns: u64,
    ended: bool,
    /// The next frame, if it was made ready.
    ready: Option<Box<Packet>>,
    /// Frames so far.
    pub packets: u64,
    /// Bytes so far.
    pub bytes: u64,
    /// Frames that the capture does not hold whole; they were filled up with zeros.
    pub padded: u64,
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
                Kind::Capture(Box::new(Capture { path, frames, wire_length: 0, origin_ns: None, start_ns }))
            }
            (None, Some(generator)) => {
                let generator = Generator::new(generator, seed)
                    .map_err(|error| Failure::usage(format!("{place}: generator: {error}")))?;
                Kind::Generator { generator: Box::new(generator), flow: 0 }
            }
            _ => return Err(Failure::usage(format!("{place}: one of pcap and generator is needed"))),
        };
        let mut source =
            Source { port: config.port, kind, time_ns: 0, ended: false, ready: None, packets: 0, bytes: 0, padded: 0 };
        source.advance(0)?;
        Ok(source)
    }

    /// Time of the next frame.
    #[inline]
    pub fn next_time(&self) -> Option<u64> {
        (!self.ended).then_some(self.time_ns)
    }

    #[inline(always)]
    fn advance(&mut self, visible: usize) -> Result<(), Failure> {
        match &mut self.kind {
            Kind::Generator { generator, flow } => match generator.next() {
                Some((time_ns, next_flow)) => (self.time_ns, *flow) = (time_ns, next_flow),
                None => self.ended = true,
            },
            Kind::Capture(capture) => {
                let place = || capture.path.display().to_string();
                let next = capture.frames.next(visible);
                let next = next.map_err(|error| Failure::usage(format!("{}: {error}", place())))?;
                let Some((captured_ns, length)) = next else {
                    self.ended = true;
                    return Ok(());
                };
                capture.wire_length = length;
                if !(14..=MAX_FRAME).contains(&length) {
                    let message = format!("{}: a frame of {length} bytes: allowed are 14 to {MAX_FRAME}", place());
                    return Err(Failure::usage(message));
                }
                let origin_ns = *capture.origin_ns.get_or_insert(captured_ns);
                let time_ns = captured_ns.saturating_sub(origin_ns) + capture.start_ns;
                // Frames that are out of order in the file follow at once.
                self.time_ns = self.time_ns.max(time_ns);
            }
        }
        Ok(())
    }

    /// Takes the next frame. `visible`: bytes of a frame that somebody looks at.
    #[inline]
    pub fn take(&mut self, pool: &mut PacketPool, visible: usize) -> Result<Box<Packet>, Failure> {
        let packet = match self.ready.take() {
            Some(packet) => packet,
            None => self.read(pool, visible),
        };
        if let Kind::Capture(capture) = &self.kind {
            self.padded += u64::from(capture.frames.bytes().len() < capture.wire_length);
        }
        self.packets += 1;
        self.bytes += u64::from(packet.frame_length());
        self.advance(visible)?;
        Ok(packet)
    }

    /// Makes the next frame ready, for the switch to have a look at what it will need. `None` behind the last one.
    #[inline]
    pub fn prepare(&mut self, pool: &mut PacketPool, visible: usize) -> Option<&mut Packet> {
        if self.ended {
            return None;
        }
        if self.ready.is_none() {
            self.ready = Some(self.read(pool, visible));
        }
        self.ready.as_deref_mut()
    }

    #[inline]
    fn read(&self, pool: &mut PacketPool, visible: usize) -> Box<Packet> {
        match &self.kind {
            Kind::Generator { generator, flow } => {
                let mut packet = pool.take_beginning(generator.frame_bytes(), visible.max(HEADERS));
                generator.write(*flow, packet.bytes_mut());
                packet
            }
            Kind::Capture(capture) => {
                let mut packet = pool.take_beginning(capture.wire_length, visible);
                let bytes = capture.frames.bytes();
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
