//! Frames through the switch, in order of time.
// SPDX-License-Identifier: Apache-2.0
use narrows_replay_config::config::QueueConfig;
use narrows_replay_config::setup::apply;
use narrows_switch::earliest::Earliest;
use narrows_switch::failure::Failure;
use narrows_switch::switch::{Switch, FIRST};

use crate::sink::Sinks;
use crate::source::Source;
use crate::view::View;

/// How often the program's digests are taken from it, and outputs asked for errors, in frames.
const HOUSEKEEPING_INTERVAL: u64 = 16_384;

/// A switch on its way through its inputs.
pub struct Run {
    pub switch: Switch,
    pub sinks: Sinks,
    pub sources: Vec<Source>,
    pub digests: u64,
    /// By position, the time of each source's next frame.
    heads: Earliest,
    changes: std::iter::Peekable<std::vec::IntoIter<QueueConfig>>,
    view: View,
    until_ns: u64,
}

impl Run {
    /// Before the first frame. `changes` are in order of time.
    pub fn new(
        switch: Switch,
        sinks: Sinks,
        sources: Vec<Source>,
        changes: Vec<QueueConfig>,
        view: View,
        until_ns: u64,
    ) -> Self {
        let mut heads = Earliest::default();
        heads.reserve(sources.len());
        sources.iter().enumerate().for_each(|(position, source)| heads.set(position, source.next_time()));
        let changes = changes.into_iter().peekable();
        Run { switch, sinks, sources, digests: 0, heads, changes, view, until_ns }
    }

    /// Counts the program's digests.
    ///
    /// Errors: an assertion of the program has failed.
    fn drain_digests(&mut self) -> Result<(), Failure> {
        let mut records = vec![];
        self.switch.drain_digests(FIRST, &mut records);
        self.digests += records.len() as u64;
        self.switch.failed_assertion().map_or(Ok(()), |failed| Err(Failure::internal(failed)))
    }

    /// Makes the frame ready that comes next of all inputs, and has the switch ask for what it will need.
    #[inline(always)]
    fn prepare(&mut self) {
        let Some((time_ns, position)) = self.heads.first() else {
            return;
        };
        let Some(source) = self.sources.get_mut(position) else {
            return;
        };
        let port = source.port;
        let following = source.prepare(self.switch.pool(), self.view);
        if let (Some(following), Some(unit)) = (following, self.switch.unit(FIRST)) {
            unit.pipeline.prepare(following, port, time_ns);
        }
    }

    /// Receives all frames that come before `end_ns`.
    fn receive(&mut self, end_ns: u64) -> Result<(), Failure> {
        let Some(last_ns) = end_ns.checked_sub(1) else {
            return Ok(());
        };
        let mut frames = 0u64;
        while let Some((time_ns, position)) = self.heads.until(last_ns) {
            let source = &mut self.sources[position];
            let port = source.port;
            let packet = source.take(self.switch.pool(), self.view)?;
            self.heads.set(position, source.next_time());
            self.prepare();
            if let Some(packet) = packet {
                self.switch.receive(port, time_ns, packet, &mut self.sinks);
            }
            frames += 1;
            if frames % HOUSEKEEPING_INTERVAL == 0 {
                self.drain_digests()?;
                self.sinks.check()?;
            }
        }
        Ok(())
    }

    /// Runs to the end.
    pub fn execute(&mut self) -> Result<(), Failure> {
        let until_ns = self.until_ns;
        while let Some(change) = self.changes.next_if(|change| change.at_ns < until_ns) {
            // A change comes before the frames of the same instant.
            self.receive(change.at_ns)?;
            self.switch.advance(change.at_ns, &mut self.sinks);
            apply(&mut self.switch, &change).map_err(Failure::usage)?;
        }
        self.receive(until_ns)?;
        while let Some(due) = self.switch.next_due().filter(|due| *due < until_ns) {
            self.switch.advance(due, &mut self.sinks);
        }
        self.drain_digests()?;
        self.sinks.finish()
    }
}
