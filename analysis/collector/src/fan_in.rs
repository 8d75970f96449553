// SPDX-License-Identifier: Apache-2.0
//! Several rings in several threads, whose reports are put back in the order in which the kernel received the frames.
//!
//! Every ring's thread decodes its frames and passes the reports on in batches. Each report has the kernel's time; the next
//! one in order is the earliest of the rings' heads. A ring without reports sends, from time to time, the time up to which it
//! has none, so that it does not hold up the others for long. Few batches wait: if one thread is behind, frames of the others
//! wait in their rings, where the kernel counts those that no longer fit.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{sync_channel, Receiver, RecvTimeoutError, SyncSender};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::capture::ring::{Ring, RETIRE_MS};
use crate::receiver::Intake;
use crate::wire::Record;

/// Batches of a ring that may wait; each is at most a block of the ring.
const BATCHES_IN_FLIGHT: usize = 16;
/// The kernel releases a block that is not full within two retire times; one more for a busy machine.
pub const DRAIN: Duration = Duration::from_millis(3 * RETIRE_MS as u64);

/// A report and when the kernel received its frame, in nanoseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    pub time: u64,
    pub record: Record,
}

/// Reports of one ring in its order. Later batches have none that is older than `until`.
#[derive(Debug, Default)]
pub struct Batch {
    pub rows: Vec<Taken>,
    pub until: u64,
}

/// Why [`FanIn::merge`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merged {
    /// A ring has sent nothing for the time given.
    Waiting,
    /// A batch has come.
    Some,
    /// All rings have ended, and everything was merged.
    All,
}

struct Stream {
    batches: Receiver<Batch>,
    batch: Batch,
    next: usize,
    ended: bool,
}

impl Stream {
    /// Later reports of this ring are not older than this time; the flag: there is one of exactly this time.
    fn head(&self) -> (u64, bool) {
        match self.batch.rows.get(self.next) {
            Some(row) => (row.time, true),
            None if self.ended => (u64::MAX, false),
            None => (self.batch.until, false),
        }
    }
}

/// The merging end of all rings.
pub struct FanIn {
    streams: Vec<Stream>,
}

impl FanIn {
    /// A fan-in of batches from these channels, one a ring.
    pub fn new(channels: Vec<Receiver<Batch>>) -> Self {
        let streams =
            channels.into_iter().map(|batches| Stream { batches, batch: Batch::default(), next: 0, ended: false });
        FanIn { streams: streams.collect() }
    }

    /// Passes on, in order, the reports whose place is certain; then waits up to `patience` for the ring that holds up the others.
    pub fn merge(&mut self, patience: Duration, emit: &mut impl FnMut(&Record)) -> Merged {
        loop {
            let Some((first, next)) = self.first_and_next() else {
                return Merged::All;
            };
            let stream = &mut self.streams[first];
            if stream.next < stream.batch.rows.len() {
                let rows = stream.batch.rows[stream.next..].iter();
                let due = rows.take_while(|row| row.time <= next);
                stream.next += due.inspect(|row| emit(&row.record)).count();
                continue;
            }
            match stream.batches.recv_timeout(patience) {
                Ok(batch) => {
                    (stream.batch, stream.next) = (batch, 0);
                    return Merged::Some;
                }
                Err(RecvTimeoutError::Timeout) => return Merged::Waiting,
                Err(RecvTimeoutError::Disconnected) => stream.ended = true,
            }
        }
    }

    /// The stream whose head is the earliest, and the earliest head of the others; `None` if nothing is left.
    fn first_and_next(&self) -> Option<(usize, u64)> {
        let heads = self.streams.iter().map(Stream::head).enumerate();
        // At equal times a report comes before a ring that only has none up to then.
        let open = heads.filter(|(_, head)| *head != (u64::MAX, false));
        let (first, _) = open.min_by_key(|(_, (time, row))| (*time, !row))?;
        let others = self.streams.iter().enumerate();
        let others = others.filter(|(index, _)| *index != first);
        let next = others.map(|(_, stream)| stream.head().0).min();
        Some((first, next.unwrap_or(u64::MAX)))
    }
}

/// One ring's thread.
pub struct RingThread {
    thread: JoinHandle<(Intake, io::Result<u64>)>,
}

impl RingThread {
    /// Starts it. It ends [`DRAIN`] after `stop` is set, once its ring is empty, or when its batches are no longer
    /// received.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn start(ring: Ring, intake: Intake, stop: Arc<AtomicBool>) -> io::Result<(Self, Receiver<Batch>)> {
        let (sender, receiver) = sync_channel(BATCHES_IN_FLIGHT);
        let thread = std::thread::Builder::new().name("ring".into());
        let thread = thread.spawn(move || read(ring, intake, &sender, &stop))?;
        Ok((RingThread { thread }, receiver))
    }

    /// Waits for its end; returns what it has received, and the frames that the kernel dropped from its ring.
    ///
    /// # Errors
    /// Why it ended early.
    pub fn join(self) -> io::Result<(Intake, io::Result<u64>)> {
        let ended = |_| io::Error::other("the thread ended unexpectedly");
        self.thread.join().map_err(ended)
    }
}

fn read(
    mut ring: Ring,
    mut intake: Intake,
    sender: &SyncSender<Batch>,
    stop: &AtomicBool,
) -> (Intake, io::Result<u64>) {
    let mut stopping: Option<Instant> = None;
    let mut ready = true;
    while ready || stopping.is_none_or(|since| since.elapsed() < DRAIN) {
        if stop.load(Ordering::Relaxed) {
            stopping.get_or_insert_with(Instant::now);
        }
        let now = unix_nanoseconds();
        let mut batch = Batch::default();
        ready = ring.drain_block(&mut |captured| {
            // If the clock was set back, the others must not wait for a time that is still to come.
            let time = captured.time.min(now);
            batch.until = time;
            if let Some(record) = intake.take(captured.frame) {
                batch.rows.push(Taken { time, record });
            }
        });
        if !ready {
            // Whatever the kernel received before that would have been passed on.
            batch.until = now.saturating_sub(DRAIN.as_nanos() as u64);
        }
        if sender.send(batch).is_err() {
            break;
        }
        if !ready {
            if let Err(error) = ring.wait(None, RETIRE_MS as i32) {
                // What this one no longer receives would be missing: all of them end.
                stop.store(true, Ordering::Relaxed);
                return (intake, Err(error));
            }
        }
    }
    let dropped = ring.dropped();
    (intake, dropped)
}

fn unix_nanoseconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_nanos() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn taken(time: u64) -> Taken {
        let mut record = Record::default();
        record.report.timestamp = time;
        Taken { time, record }
    }

    fn batch(times: &[u64], until: u64) -> Batch {
        let rows = times.iter().map(|time| taken(*time)).collect();
        Batch { rows, until }
    }

    /// Sends batches to a fan-in of as many rings, then ends them.
    fn merged(rings: Vec<Vec<Batch>>) -> Vec<u64> {
        let (senders, receivers): (Vec<_>, Vec<_>) = rings.iter().map(|_| sync_channel::<Batch>(1000)).unzip();
        for (sender, batches) in senders.into_iter().zip(rings) {
            for batch in batches {
                assert!(sender.send(batch).is_ok());
            }
        }
        let mut fan_in = FanIn::new(receivers);
        let mut times = Vec::new();
        let mut emit = |record: &Record| times.push(record.report.timestamp);
        while fan_in.merge(Duration::ZERO, &mut emit) != Merged::All {}
        times
    }

    proptest! {
        #[test]
        fn any_split_over_rings_and_batches_comes_back_in_order(
            rings in proptest::collection::vec(0_usize..4, 1..400),
            lengths in proptest::collection::vec(1_usize..9, 1..40),
        ) {
            let mut split: Vec<Vec<u64>> = vec![Vec::new(); 4];
            for (time, ring) in rings.iter().enumerate() {
                split[*ring].push(time as u64);
            }
            let batches = split.iter().map(|times| {
                let mut left: &[u64] = times;
                let mut batches = Vec::new();
                for length in lengths.iter().cycle() {
                    if left.is_empty() {
                        break;
                    }
                    let (head, tail) = left.split_at((*length).min(left.len()));
                    batches.push(batch(head, head[head.len() - 1]));
                    left = tail;
                }
                batches
            });
            let expected: Vec<u64> = (0..rings.len() as u64).collect();
            prop_assert_eq!(merged(batches.collect()), expected);
        }
    }

    #[test]
    fn a_ring_that_may_still_have_an_earlier_one_is_waited_for() {
        let (busy, busy_batches) = sync_channel(10);
        let (idle, idle_batches) = sync_channel(10);
        let mut fan_in = FanIn::new(vec![busy_batches, idle_batches]);
        let mut times = Vec::new();
        assert!(busy.send(batch(&[10, 20, 30], 30)).is_ok());
        let mut step = |times: &mut Vec<u64>| {
            let mut emit = |record: &Record| times.push(record.report.timestamp);
            while fan_in.merge(Duration::from_millis(1), &mut emit) == Merged::Some {}
        };
        step(&mut times);
        assert!(times.is_empty(), "nothing is known of the other ring");
        assert!(idle.send(batch(&[], 25)).is_ok());
        step(&mut times);
        assert_eq!(times, [10, 20]);
        assert!(idle.send(batch(&[27], 27)).is_ok());
        step(&mut times);
        assert_eq!(times, [10, 20, 27]);
        drop(idle);
        step(&mut times);
        assert_eq!(times, [10, 20, 27, 30]);
    }
}
