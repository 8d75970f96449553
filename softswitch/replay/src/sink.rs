//! Outputs of a replay: what leaves each port is counted, and written to a capture if one was asked for.
// SPDX-License-Identifier: Apache-2.0
use std::fs::File;
use std::io;
use std::path::Path;

use narrows_captures::Writer;
use narrows_pipeline::{Packet, PacketPool};
use narrows_replay_config::config::Config;
use narrows_replay_config::setup::port_number;
use narrows_switch::failure::Failure;
use narrows_switch::switch::Output;
use narrows_switch::tm::PORTS;

/// What left one port.
#[derive(Default)]
pub struct Sink {
    pub packets: u64,
    pub bytes: u64,
    pub last_ns: u64,
    writer: Option<Writer<File>>,
    /// The last frame with its time, not yet written: a frame that was just put together from small pieces can be copied
    /// much faster a little later, when they have reached the cache.
    last: Option<(u64, Box<Packet>)>,
}

/// What left the switch.
pub struct Sinks {
    by_port: Box<[Option<Box<Sink>>; PORTS]>,
    /// Ports in the order of the configuration.
    ports: Vec<u16>,
    error: Option<io::Error>,
}

fn failed(error: io::Error) -> Failure {
    Failure::internal(format!("writing a capture: {error}"))
}

impl Sinks {
    /// Makes the captures in `out`. The ports must have been checked.
    pub fn open(config: &Config, out: &Path) -> Result<Self, Failure> {
        let mut sinks = Sinks { by_port: Box::new([const { None }; PORTS]), ports: config.ports.clone(), error: None };
        for port in &config.ports {
            sinks.by_port[usize::from(*port)] = Some(Box::default());
        }
        for (number, given) in config.outputs.iter().enumerate() {
            let place = format!("outputs[{number}]");
            port_number(given.port, &config.ports, &place)?;
            if given.pcap.contains('/') || given.pcap.starts_with('.') || given.pcap.is_empty() {
                return Err(Failure::usage(format!("{place}: pcap {:?}: it must be a file name", given.pcap)));
            }
            let path = out.join(&given.pcap);
            let failed = |error| Failure::usage(format!("{}: {error}", path.display()));
            let writer = Writer::new(File::create(&path).map_err(failed)?, given.snap_bytes);
            if let Some(sink) = &mut sinks.by_port[usize::from(given.port)] {
                if sink.writer.replace(writer).is_some() {
                    return Err(Failure::usage(format!("{place}: port {} has an output already", given.port)));
                }
            }
        }
        Ok(sinks)
    }

    /// Ports and what left them.
    pub fn iter(&self) -> impl Iterator<Item = (u16, &Sink)> {
        self.ports.iter().filter_map(|port| Some((*port, self.by_port[usize::from(*port)].as_deref()?)))
    }

    /// Errors: writing a capture has failed.
    pub fn check(&mut self) -> Result<(), Failure> {
        self.error.take().map_or(Ok(()), |error| Err(failed(error)))
    }

    /// Writes what is left. Errors: writing a capture has failed.
    pub fn finish(&mut self) -> Result<(), Failure> {
        self.check()?;
        for sink in self.by_port.iter_mut().flatten() {
            if let Some(mut writer) = sink.writer.take() {
                if let Some((exit_ns, packet)) = sink.last.take() {
                    writer.write(exit_ns, packet.bytes(), packet.frame_length()).map_err(failed)?;
                }
                writer.finish().map_err(failed)?;
            }
        }
        Ok(())
    }
}

impl Output for Sinks {
    #[inline(always)]
    fn send(&mut self, port: u16, exit_ns: u64, packet: Box<Packet>, pool: &mut PacketPool) {
        let Some(sink) = self.by_port.get_mut(usize::from(port)).and_then(Option::as_deref_mut) else {
            return pool.give(packet);
        };
        sink.packets += 1;
        sink.bytes += u64::from(packet.frame_length());
        sink.last_ns = exit_ns;
        let Some(writer) = &mut sink.writer else {
            return pool.give(packet);
        };
        if let Some((exit_ns, packet)) = sink.last.replace((exit_ns, packet)) {
            if let Err(error) = writer.write(exit_ns, packet.bytes(), packet.frame_length()) {
                self.error.get_or_insert(error);
            }
            pool.give(packet);
        }
    }
}
