//! Interrupt moderation of a host's network card: frames that arrive within a time are delivered together.
// SPDX-License-Identifier: Apache-2.0
use std::time::Duration;

/// When a card interrupts its processor, as `ethtool -C` calls it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModerationSettings {
    /// rx-usecs: this time after the first frame, at the latest.
    pub wait: Duration,
    /// rx-frames: as soon as there are this many.
    pub frames: usize,
    /// Large receive offload (`ethtool -K lro`): segments of a flow that are delivered with one interrupt are one frame.
    pub joins: bool,
}

/// Interrupts of a card: frames go in with the times of their arrival and come out with those of their interrupts.
#[derive(Debug)]
pub struct Moderation<F> {
    wait_ns: u64,
    frames: usize,
    /// Frames since the last interrupt, with their arrivals.
    held: Vec<(u64, F)>,
}

impl<F> Moderation<F> {
    /// A card that holds no frame.
    pub fn new(settings: ModerationSettings) -> Self {
        Moderation { wait_ns: settings.wait.as_nanos() as u64, frames: settings.frames, held: Vec::new() }
    }

    /// When the frames that are held are delivered, if no more come.
    pub fn due_ns(&self) -> Option<u64> {
        self.held.first().map(|(arrival_ns, _)| arrival_ns + self.wait_ns)
    }

    /// A frame arrives, no earlier than the ones before. Frames whose interrupt comes by then are given to `deliver`, with its
    /// time.
    pub fn take(&mut self, arrival_ns: u64, frame: F, mut deliver: impl FnMut(u64, &mut dyn Iterator<Item = F>)) {
        self.settle(arrival_ns, &mut deliver);
        self.held.push((arrival_ns, frame));
        if self.held.len() >= self.frames {
            self.interrupt(arrival_ns, deliver);
        }
    }

    /// No frame will arrive before `until_ns`: what is delivered by then is given to `deliver`.
    pub fn settle(&mut self, until_ns: u64, deliver: impl FnMut(u64, &mut dyn Iterator<Item = F>)) {
        if let Some(due_ns) = self.due_ns().filter(|due_ns| *due_ns <= until_ns) {
            self.interrupt(due_ns, deliver);
        }
    }

    fn interrupt(&mut self, at_ns: u64, mut deliver: impl FnMut(u64, &mut dyn Iterator<Item = F>)) {
        deliver(at_ns, &mut self.held.drain(..).map(|(_, frame)| frame));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When frames that arrive at these times are delivered, and what is held in the end.
    fn deliveries(wait_ns: u64, frames: usize, arrivals: &[u64]) -> (Vec<(u64, u64)>, Option<u64>) {
        let mut card =
            Moderation::new(ModerationSettings { wait: Duration::from_nanos(wait_ns), frames, joins: false });
        let mut delivered = Vec::new();
        for arrival_ns in arrivals {
            card.take(*arrival_ns, *arrival_ns, |at_ns, frames| delivered.extend(frames.map(|frame| (at_ns, frame))));
        }
        (delivered, card.due_ns())
    }

    #[test]
    fn the_first_frame_starts_the_time() {
        let (delivered, due) = deliveries(100, usize::MAX, &[10, 50, 109, 110, 300]);
        assert_eq!(delivered, [(110, 10), (110, 50), (110, 109), (210, 110)]);
        assert_eq!(due, Some(400));
    }

    #[test]
    fn enough_frames_interrupt_at_once() {
        let (delivered, due) = deliveries(100, 2, &[10, 50, 60, 90, 95]);
        assert_eq!(delivered, [(50, 10), (50, 50), (90, 60), (90, 90)]);
        assert_eq!(due, Some(195));
        assert_eq!(deliveries(100, 1, &[10, 50]), (vec![(10, 10), (50, 50)], None));
    }

    #[test]
    fn what_is_held_waits_for_its_time_and_no_longer() {
        let mut card = Moderation::new(ModerationSettings { wait: Duration::from_nanos(100), frames: 8, joins: false });
        card.take(10, 'a', |_, _| panic!("too early"));
        card.settle(109, |_, _| panic!("too early"));
        let mut delivered = Vec::new();
        card.settle(110, |at_ns, frames| delivered.extend(frames.map(|frame| (at_ns, frame))));
        assert_eq!((delivered, card.due_ns()), (vec![(110, 'a')], None));
    }
}
