//! Each exactness claim against an independent model: a list of packets and exact fractions, no queue and no heap.
// SPDX-License-Identifier: Apache-2.0
use proptest::prelude::*;

use super::*;

const PORT: (u16, u8) = (3, 0);

/// What happened to packet `id`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fate {
    id: usize,
    start_ns: u64,
    exit_ns: u64,
    enqueue_depth: (u64, u64),
    dequeue_depth: (u64, u64),
    epoch: u64,
}

#[derive(Debug, Clone)]
enum Step {
    Packet { gap_ns: u64, length: u32, flow: u32 },
    Change { gap_ns: u64, changes: Changes },
}

struct Run {
    fates: Vec<Fate>,
    dropped: Vec<usize>,
    sent: Vec<(u64, usize)>,
    tm: TrafficManager<usize>,
}

fn record(run: &mut Run, now_ns: u64, dequeued: Dequeued<usize>) {
    let meta = dequeued.meta;
    run.fates.push(Fate {
        id: dequeued.packet,
        start_ns: meta.timestamp,
        exit_ns: dequeued.exit_ns,
        enqueue_depth: (meta.enq_depth_bytes.into(), meta.enq_qdepth.into()),
        dequeue_depth: (meta.deq_depth_bytes.into(), meta.deq_qdepth.into()),
        epoch: meta.epoch.into(),
    });
    if dequeued.exit_ns <= now_ns && !run.tm.has_exit(now_ns, dequeued.queue) {
        run.sent.push((now_ns, dequeued.packet));
    } else {
        run.tm.delay(dequeued.queue, dequeued.exit_ns, dequeued.packet);
    }
}

fn drain(run: &mut Run, until_ns: u64) {
    while let Some(due) = run.tm.next_due().filter(|due| *due <= until_ns) {
        match run.tm.poll(until_ns) {
            Some(Event::Start(dequeued)) => {
                assert_eq!(dequeued.meta.timestamp, due);
                record(run, due, dequeued);
            }
            Some(Event::Exit { port, exit_ns, packet }) => {
                assert_eq!((port, exit_ns), (PORT.0, due));
                run.sent.push((exit_ns, packet));
            }
            None => panic!("due at {due}, nothing polled"),
        }
    }
}

fn execute(steps: &[Step]) -> Run {
    let mut run = Run { fates: vec![], dropped: vec![], sent: vec![], tm: TrafficManager::new(usize::MAX) };
    let mut now = 0;
    for (id, step) in steps.iter().enumerate() {
        match *step {
            Step::Packet { gap_ns, length, flow } => {
                now += gap_ns;
                drain(&mut run, now);
                match run.tm.enqueue(now, PORT, 0, length, Some(flow), id) {
                    Admission::Dropped(id) => run.dropped.push(id),
                    Admission::Queued => {}
                    Admission::Started(dequeued) => record(&mut run, now, dequeued),
                }
            }
            Step::Change { gap_ns, changes } => {
                now += gap_ns;
                drain(&mut run, now);
                run.tm.configure(PORT, changes).expect("in range");
            }
        }
        let status = run.tm.status();
        for queue in status {
            let counters = queue.counters;
            assert_eq!(counters.enqueued_packets, counters.dequeued_packets + queue.depth_packets);
            assert_eq!(counters.enqueued_bytes, counters.dequeued_bytes + queue.depth_bytes);
        }
    }
    drain(&mut run, u64::MAX);
    run
}

/// The contract again, written as arithmetic over a list. Times are fractions over the rate in force.
fn model(steps: &[Step]) -> (Vec<Fate>, Vec<usize>) {
    struct Admitted {
        id: usize,
        arrival: u64,
        length: u64,
        start: Option<u64>,
        found: (u64, u64),
        epoch: u64,
    }
    let mut admitted: Vec<Admitted> = vec![];
    let (mut fates, mut dropped) = (vec![], vec![]);
    let (mut rate, mut limit_bytes, mut limit_packets, mut delay, mut epoch) =
        (0u64, 0u64, DEFAULT_LIMIT_PACKETS, 0u64, 1u64);
    // Finish of the previous packet: whole nanoseconds and a fraction of one over the rate.
    let (mut finish, mut part) = (0u64, 0u128);
    let mut last_exit = 0u64;
    let mut now = 0;
    let advance = |admitted: &mut Vec<Admitted>,
                   fates: &mut Vec<Fate>,
                   until: u64,
                   rate: u64,
                   delay: u64,
                   finish: &mut u64,
                   part: &mut u128,
                   last_exit: &mut u64| {
        for position in 0..admitted.len() {
            if admitted[position].start.is_some() {
                continue;
            }
            let arrival = admitted[position].arrival;
            let (start, start_part) = if *finish >= arrival { (*finish, *part) } else { (arrival, 0) };
            if start > until {
                break;
            }
            admitted[position].start = Some(start);
            (*finish, *part) = (start, start_part);
            if rate > 0 {
                let total = u128::from(admitted[position].length) * 8_000_000_000 + start_part;
                *finish = start + (total / u128::from(rate)) as u64;
                *part = total % u128::from(rate);
            }
            *last_exit = (*last_exit).max(*finish + delay);
            // At one instant departures come before arrivals: what arrives at `start` itself is not left behind.
            let behind: Vec<&Admitted> =
                admitted[position + 1..].iter().filter(|other| other.arrival < start).collect();
            fates.push(Fate {
                id: admitted[position].id,
                start_ns: start,
                exit_ns: *last_exit,
                enqueue_depth: admitted[position].found,
                dequeue_depth: (behind.iter().map(|other| other.length).sum(), behind.len() as u64),
                epoch: admitted[position].epoch,
            });
        }
    };
    for (id, step) in steps.iter().enumerate() {
        match *step {
            Step::Packet { gap_ns, length, .. } => {
                now += gap_ns;
                advance(&mut admitted, &mut fates, now, rate, delay, &mut finish, &mut part, &mut last_exit);
                let waiting: Vec<u64> = admitted.iter().filter(|a| a.start.is_none()).map(|a| a.length).collect();
                let found = (waiting.iter().sum::<u64>(), waiting.len() as u64);
                let full = (limit_bytes > 0 && found.0 + u64::from(length) > limit_bytes)
                    || (limit_packets > 0 && found.1 + 1 > limit_packets);
                if full {
                    dropped.push(id);
                    continue;
                }
                admitted.push(Admitted { id, arrival: now, length: length.into(), start: None, found, epoch });
                advance(&mut admitted, &mut fates, now, rate, delay, &mut finish, &mut part, &mut last_exit);
            }
            Step::Change { gap_ns, changes } => {
                now += gap_ns;
                advance(&mut admitted, &mut fates, now, rate, delay, &mut finish, &mut part, &mut last_exit);
                if let Some(new) = changes.rate_bps {
                    part = if rate == 0 { 0 } else { part * u128::from(new) / u128::from(rate) };
                    rate = new;
                }
                limit_bytes = changes.limit_bytes.unwrap_or(limit_bytes);
                limit_packets = changes.limit_packets.unwrap_or(limit_packets);
                delay = changes.delay_ns.unwrap_or(delay);
                epoch += 1;
            }
        }
    }
    advance(&mut admitted, &mut fates, u64::MAX, rate, delay, &mut finish, &mut part, &mut last_exit);
    (fates, dropped)
}

fn step() -> impl Strategy<Value = Step> {
    let gap = prop_oneof![Just(0u64), 1u64..200, 1_000u64..20_000];
    let packet =
        (gap.clone(), 1u32..2_000, 0u32..4).prop_map(|(gap_ns, length, flow)| Step::Packet { gap_ns, length, flow });
    let changes = (
        prop::option::of(prop_oneof![Just(0u64), 1_000_000u64..400_000_000_000]),
        prop::option::of(0u64..20_000),
        prop::option::of(0u64..12),
        prop::option::of(0u64..100_000),
    )
        .prop_map(|(rate_bps, limit_bytes, limit_packets, delay_ns)| Changes {
            rate_bps,
            limit_bytes,
            limit_packets,
            delay_ns,
        });
    prop_oneof![15 => packet, 1 => (gap, changes).prop_map(|(gap_ns, changes)| Step::Change { gap_ns, changes })]
}

fn scenario() -> impl Strategy<Value = Vec<Step>> {
    let first =
        (1_000_000u64..100_000_000_000, 0u64..20_000, 0u64..40).prop_map(|(rate, bytes, packets)| Step::Change {
            gap_ns: 0,
            changes: Changes {
                rate_bps: Some(rate),
                limit_bytes: Some(bytes),
                limit_packets: Some(packets),
                delay_ns: Some(5_000),
            },
        });
    (first, prop::collection::vec(step(), 1..200)).prop_map(|(first, mut steps)| {
        steps.insert(0, first);
        steps
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Starts, exits, depths, epochs and drops are those of the model, also across live changes; nothing is lost or doubled.
    #[test]
    fn agrees_with_the_model(steps in scenario()) {
        let run = execute(&steps);
        let (fates, dropped) = model(&steps);
        prop_assert_eq!(&run.dropped, &dropped);
        prop_assert_eq!(&run.fates, &fates);
        let mut sent: Vec<(u64, usize)> = fates.iter().map(|fate| (fate.exit_ns, fate.id)).collect();
        sent.sort_by_key(|(exit, _)| *exit);
        prop_assert_eq!(&run.sent, &sent);
        prop_assert_eq!(run.tm.held(), 0);
    }

    /// Drops of the flows are the drops of the queue, packet by packet.
    #[test]
    fn flows_account_for_every_drop(steps in scenario()) {
        let run = execute(&steps);
        let mut expected: std::collections::BTreeMap<u32, Drops> = Default::default();
        for id in &run.dropped {
            if let Step::Packet { flow, length, .. } = steps[*id] {
                let drops = expected.entry(flow).or_default();
                drops.packets += 1;
                drops.bytes += u64::from(length);
            }
        }
        let found = run.tm.flow_drops(PORT.0, PORT.1).expect("exists");
        prop_assert_eq!(found.into_iter().collect::<std::collections::BTreeMap<_, _>>(), expected);
        let counters = run.tm.status()[0].counters;
        prop_assert_eq!(counters.dropped_packets, run.dropped.len() as u64);
        let arrived = steps.iter().filter(|step| matches!(step, Step::Packet { .. })).count() as u64;
        prop_assert_eq!(arrived, counters.dequeued_packets + counters.dropped_packets);
    }

    /// When exits are taken makes no difference to what starts when, nor to what leaves each port when and in which order.
    #[test]
    fn exits_can_be_taken_late(
        arrivals in prop::collection::vec((0u64..400, 0u16..3, 0u8..3, 60u32..1_514), 1..300),
        batch in 1usize..40,
    ) {
        let (eager, late) = (Driver::new(0).run(&arrivals), Driver::new(batch).run(&arrivals));
        prop_assert_eq!(eager.starts, late.starts);
        let sorted = |sent: &[(u64, usize)]| sent.windows(2).all(|pair| pair[0].0 <= pair[1].0);
        prop_assert!(late.sent.values().all(|sent| sorted(sent)));
        prop_assert_eq!(eager.sent, late.sent);
    }

    /// Many queues at once behave as each would alone: what one queue is offered never changes another's schedule.
    #[test]
    fn queues_are_independent(arrivals in prop::collection::vec((0u64..2_000, 0u16..64, 0u8..8, 60u32..1_514), 1..300)) {
        let changes = Changes { rate_bps: Some(1_000_000_000), limit_packets: Some(5), ..Changes::default() };
        let schedule = |only: Option<(u16, u8)>| {
            let mut tm = TrafficManager::new(usize::MAX);
            let mut starts: Vec<(u16, u8, usize, u64)> = vec![];
            let mut now = 0;
            for (id, (gap, port, priority, length)) in arrivals.iter().enumerate() {
                now += gap;
                while let Some(event) = tm.poll(now) {
                    if let Event::Start(d) = event {
                        starts.push((d.meta.port, d.meta.priority, d.packet, d.meta.timestamp));
                    }
                }
                if only.is_none_or(|queue| queue == (*port, *priority)) {
                    if tm.status().iter().all(|queue| (queue.port, queue.priority) != (*port, *priority)) {
                        tm.configure((*port, *priority), changes).expect("in range");
                    }
                    if let Admission::Started(d) = tm.enqueue(now, (*port, *priority), 0, *length, None, id) {
                        starts.push((d.meta.port, d.meta.priority, d.packet, d.meta.timestamp));
                    }
                }
            }
            while let Some(Event::Start(d)) = tm.poll(u64::MAX) {
                starts.push((d.meta.port, d.meta.priority, d.packet, d.meta.timestamp));
            }
            starts
        };
        let together = schedule(None);
        prop_assert!(together.windows(2).all(|pair| pair[0].3 <= pair[1].3), "starts are not in time order");
        let queue = (arrivals[0].1, arrivals[0].2);
        let mine: Vec<_> = together.iter().filter(|start| (start.0, start.1) == queue).copied().collect();
        prop_assert_eq!(mine, schedule(Some(queue)));
    }
}

/// Drives a traffic manager; exits are taken with every so many arrivals only, or event by event (`batch` 0).
struct Driver {
    tm: TrafficManager<usize>,
    batch: usize,
    /// Time and packet.
    starts: Vec<(u64, usize)>,
    /// The same for what leaves each port.
    sent: std::collections::BTreeMap<u16, Vec<(u64, usize)>>,
}

impl Driver {
    fn new(batch: usize) -> Self {
        let mut tm = TrafficManager::new(usize::MAX);
        for (port, delay_ns) in [(0, 0), (1, 700), (2, 5_000)] {
            for (priority, rate_bps) in [(0, 0), (1, 8_000_000_000), (2, 16_000_000_000)] {
                let changes = Changes { rate_bps: Some(rate_bps), delay_ns: Some(delay_ns), ..Changes::default() };
                tm.configure((port, priority), changes).expect("in range");
            }
        }
        Driver { tm, batch, starts: vec![], sent: Default::default() }
    }

    fn take(&mut self, now: u64) {
        self.tm.take_exits(now, |port, exit_ns, id| self.sent.entry(port).or_default().push((exit_ns, id)));
    }

    fn start(&mut self, dequeued: Dequeued<usize>) {
        let Dequeued { packet, queue, exit_ns, meta } = dequeued;
        let (port, start_ns) = (meta.port, meta.timestamp);
        self.starts.push((start_ns, packet));
        if self.batch > 0 && exit_ns <= start_ns && self.tm.has_exit(start_ns, queue) {
            self.take(start_ns);
        }
        if exit_ns <= start_ns && !self.tm.has_exit(start_ns, queue) {
            self.sent.entry(port).or_default().push((exit_ns, packet));
        } else {
            self.tm.delay(queue, exit_ns, packet);
        }
    }

    fn until(&mut self, now: u64) {
        if self.batch > 0 {
            while let Some(dequeued) = self.tm.poll_start(now) {
                self.start(dequeued);
            }
            return;
        }
        while let Some(event) = self.tm.poll(now) {
            match event {
                Event::Start(dequeued) => self.start(dequeued),
                Event::Exit { port, exit_ns, packet } => self.sent.entry(port).or_default().push((exit_ns, packet)),
            }
        }
    }

    fn run(mut self, arrivals: &[(u64, u16, u8, u32)]) -> Self {
        let mut now = 0;
        for (id, (gap, port, priority, length)) in arrivals.iter().enumerate() {
            now += gap;
            self.until(now);
            if let Admission::Started(dequeued) = self.tm.enqueue(now, (*port, *priority), 0, *length, None, id) {
                self.start(dequeued);
            }
            if self.batch > 0 && id % self.batch == 0 {
                self.take(now);
                assert!(self.tm.next_due().is_none_or(|next| next > now));
            }
        }
        self.until(1 << 60);
        self.take(1 << 60);
        assert_eq!((self.tm.held(), self.tm.next_due()), (0, None));
        self
    }
}

fn saturated(rate_bps: u64, limits: (u64, u64), packets: usize, length: u32) -> Run {
    let changes = Changes {
        rate_bps: Some(rate_bps),
        limit_bytes: Some(limits.0),
        limit_packets: Some(limits.1),
        delay_ns: None,
    };
    let mut steps = vec![Step::Change { gap_ns: 0, changes }];
    steps.extend((0..packets).map(|_| Step::Packet { gap_ns: 0, length, flow: 0 }));
    execute(&steps)
}

#[test]
fn rate_is_exact_over_the_whole_range() {
    for rate in [1_000_000, 10_000_000, 333_333_333, 1_000_000_000, 100_000_000_000, 400_000_000_000] {
        let run = saturated(rate, (0, 0), 10_000, 1_514);
        let exact = 10_000u128 * 1_514 * 8_000_000_000 / u128::from(rate);
        assert_eq!(u128::from(run.fates[9_999].exit_ns), exact, "rate {rate}");
    }
}

/// The claim is 0.1 %; in virtual time the error is below a nanosecond of the whole transfer.
#[test]
fn rate_error_with_frames_of_all_lengths() {
    let decades = (6..12u32).flat_map(|power| [1, 2, 4].map(|digit| digit * 10u64.pow(power)));
    let rates: Vec<u64> = decades.filter(|rate| *rate <= 400_000_000_000).collect();
    assert_eq!((rates.first(), rates.last()), (Some(&1_000_000), Some(&400_000_000_000)));
    for rate in rates {
        let changes = Changes { rate_bps: Some(rate), limit_packets: Some(0), ..Changes::default() };
        let mut steps = vec![Step::Change { gap_ns: 0, changes }];
        let lengths: Vec<u32> = (0..5_000u32).map(|number| 60 + number * 7_919 % 9_175).collect();
        steps.extend(lengths.iter().map(|length| Step::Packet { gap_ns: 0, length: *length, flow: 0 }));
        let run = execute(&steps);
        let bits = 8.0 * lengths.iter().map(|length| f64::from(*length)).sum::<f64>();
        let measured = bits * 1e9 / run.fates[4_999].exit_ns as f64;
        assert!((measured / rate as f64 - 1.0).abs() <= 0.001, "{measured} instead of {rate}");
        assert!((run.fates[4_999].exit_ns as f64 - bits * 1e9 / rate as f64).abs() < 1.5, "rate {rate}");
    }
}

/// The delay line adds the same to each packet, on an idle link and behind a full queue, to the nanosecond.
#[test]
fn delay_is_constant() {
    let changes = |delay_ns| Changes {
        rate_bps: Some(1_000_000_007),
        limit_packets: Some(50),
        delay_ns: Some(delay_ns),
        ..Changes::default()
    };
    let scenario = |delay_ns| {
        let mut steps = vec![Step::Change { gap_ns: 0, changes: changes(delay_ns) }];
        // Bursts of 100 that overflow the queue, and then nothing until it has run empty.
        steps.extend((0..5_000u32).map(|number| Step::Packet {
            gap_ns: if number % 100 == 0 { 10_000_000 } else { 1 },
            length: 60 + number * 7_919 % 1_455,
            flow: 0,
        }));
        execute(&steps)
    };
    let without = scenario(0);
    assert!(!without.dropped.is_empty());
    for delay_ns in [1, 20_000_000, MAX_DELAY_NS] {
        let with = scenario(delay_ns);
        assert_eq!(with.dropped, without.dropped);
        let exits = |run: &Run, delay_ns| run.sent.iter().map(|(exit, id)| (exit + delay_ns, *id)).collect::<Vec<_>>();
        assert_eq!(exits(&with, 0), exits(&without, delay_ns));
    }
}

/// Whatever the limit, a full queue holds exactly what fits and not a byte or a packet more.
#[test]
fn tail_drop_at_every_limit() {
    for limit in 100..=1_200 {
        let run = saturated(1_000, (limit, 0), 15, 100);
        let counters = run.tm.status()[0].counters;
        assert_eq!(counters.peak_depth_bytes, limit / 100 * 100, "limit {limit}");
        // The first packet is in service.
        assert_eq!(run.dropped, (limit as usize / 100 + 2..=15).collect::<Vec<_>>(), "limit {limit}");
    }
    for limit in 1..=14 {
        let run = saturated(1_000, (0, limit), 15, 100);
        assert_eq!(run.tm.status()[0].counters.peak_depth_packets, limit, "limit {limit}");
        assert_eq!(run.dropped, (limit as usize + 2..=15).collect::<Vec<_>>(), "limit {limit}");
    }
}

#[test]
fn idle_link_still_checks_the_limit() {
    assert_eq!(saturated(1_000, (99, 0), 1, 100).dropped, vec![1]);
}

#[test]
fn pool_bounds_what_is_held() {
    let mut tm = TrafficManager::new(2);
    tm.configure(PORT, Changes { rate_bps: Some(1_000), ..Changes::default() }).expect("in range");
    let Admission::Started(first) = tm.enqueue(0, PORT, 0, 100, None, 0) else { panic!("idle link") };
    tm.delay(first.queue, first.exit_ns, 0);
    assert!(matches!(tm.enqueue(0, PORT, 0, 100, Some(9), 1), Admission::Queued));
    assert!(matches!(tm.enqueue(0, PORT, 0, 100, Some(9), 2), Admission::Dropped(2)));
    let counters = tm.status()[0].counters;
    assert_eq!((counters.dropped_packets, counters.pool_dropped_packets), (1, 1));
    assert_eq!(tm.flow_drops(3, 0).expect("exists"), vec![(9, Drops { packets: 1, bytes: 100 })]);
}

#[test]
fn flush_counts_what_it_discards() {
    let mut tm = TrafficManager::new(10);
    tm.configure(PORT, Changes { rate_bps: Some(1_000), ..Changes::default() }).expect("in range");
    for id in 0..4 {
        if let Admission::Started(d) = tm.enqueue(0, PORT, 0, 50, None, id) {
            tm.delay(d.queue, d.exit_ns, d.packet);
        }
    }
    assert_eq!(tm.flush(), vec![1, 2, 3]);
    let status = tm.status()[0];
    assert_eq!((status.depth_bytes, status.counters.flushed_packets, status.counters.flushed_bytes), (0, 3, 150));
    assert!(matches!(tm.poll(u64::MAX), Some(Event::Exit { packet: 0, .. })));
    assert!(tm.poll(u64::MAX).is_none());
    assert_eq!(tm.held(), 0);
}

#[test]
fn new_delay_is_a_new_epoch_for_the_whole_port() {
    let mut tm: TrafficManager<()> = TrafficManager::new(10);
    tm.configure((1, 0), Changes::default()).expect("in range");
    tm.configure((2, 0), Changes::default()).expect("in range");
    let changes = Changes { delay_ns: Some(5), ..Changes::default() };
    assert_eq!(tm.configure((1, 3), changes), Ok(2));
    let epochs: Vec<_> = tm.status().iter().map(|queue| (queue.port, queue.priority, queue.epoch)).collect();
    assert_eq!(epochs, vec![(1, 0, 3), (1, 3, 2), (2, 0, 2)]);
}

#[test]
fn a_new_queue_has_the_delay_of_its_port() {
    let mut tm = TrafficManager::new(10);
    tm.configure((1, 0), Changes { delay_ns: Some(5), ..Changes::default() }).expect("in range");
    let Admission::Started(started) = tm.enqueue(100, (1, 3), 7, 60, None, ()) else { panic!("idle link") };
    assert_eq!((started.exit_ns, started.meta.rid), (105, 7));
    assert!(tm.status().iter().all(|queue| queue.delay_ns == 5));
}

/// A packet that waits keeps its replica id; telemetry's depths, delays and epochs stay within their fields.
#[test]
fn what_waited_is_told_to_egress() {
    let mut tm = TrafficManager::new(usize::MAX);
    let changes = Changes { rate_bps: Some(1_000_000_000), limit_packets: Some(0), ..Changes::default() };
    (0..0x1_0000).for_each(|_| assert!(tm.configure(PORT, changes).is_ok()));
    let long = 0x8000_0000;
    let Admission::Started(first) = tm.enqueue(0, PORT, 7, long, None, 0) else { panic!("idle link") };
    assert_eq!((first.meta.rid, first.meta.epoch), (7, 2), "the 65,537th");
    for (rid, length) in [(8, long), (9, long), (10, 1)] {
        assert!(matches!(tm.enqueue(5, PORT, rid, length, None, 0), Admission::Queued));
    }
    let left: Vec<EgressMeta> = std::iter::from_fn(|| Some(tm.poll_start(u64::MAX)?.meta)).collect();
    let of = |field: fn(&EgressMeta) -> u32| left.iter().map(field).collect::<Vec<_>>();
    assert_eq!(of(|meta| meta.rid.into()), [8, 9, 10]);
    assert_eq!(of(|meta| meta.enq_qdepth), [0, 1, 2]);
    assert_eq!(of(|meta| meta.deq_qdepth), [2, 1, 0]);
    assert_eq!(of(|meta| meta.enq_depth_bytes), [0, long, u32::MAX]);
    assert_eq!(of(|meta| meta.deq_depth_bytes), [long + 1, 1, 0]);
    assert_eq!(of(|meta| meta.enq_timestamp), [5; 3]);
    assert_eq!(of(|meta| meta.deq_timedelta), [u32::MAX; 3]);
}

#[test]
fn settings_out_of_range_change_nothing() {
    let mut tm: TrafficManager<()> = TrafficManager::new(10);
    let too_fast = Changes { rate_bps: Some(MAX_RATE_BPS + 1), limit_bytes: Some(7), ..Changes::default() };
    assert!(tm.configure((1, 0), too_fast).expect_err("too fast").contains("rate_bps"));
    assert!(tm.configure((512, 0), Changes::default()).expect_err("port").contains("0 to 511"));
    assert!(tm.configure((1, 8), Changes::default()).expect_err("queue").contains("0 to 7"));
    assert!(tm.status().is_empty());
}
