//! The path of a packet: ingress, queue, egress, and on; and that of its copies.
// SPDX-License-Identifier: Apache-2.0
use narrows_drop_records::Cause;
use narrows_pipeline::{EgressMeta, Forward, Packet};

use super::drops::Dropped;
use super::{Looped, Output, PortKind, Switch, MAX_INSTANT_LOOPS};
use crate::tm::{Admission, Dequeued, PushedOut, QueueNumber, Tick, TIMER_PORT};
use crate::unit::CloneSession;

/// An Ethernet header, whose destination is the bottleneck that a frame of the timer is for.
const TIMER_FRAME_BYTES: usize = 14;

/// Copies of copies a packet can have; a program that clones its clones for ever ends here.
const MAX_GENERATION: u8 = 8;
/// Copies that are made at once of a packet and of its copies: a session may have many ports, and each copy may be cloned again.
const MAX_COPIES: u32 = 1_024;

/// The queue that a packet goes to, and its replica id, in one word: port (16 bits), replica id (16 bits), priority. (What is put
/// together in memory from smaller pieces and read as a whole at once makes the processor wait.)
#[derive(Debug, Clone, Copy)]
pub(super) struct Route(u64);

impl Route {
    #[inline]
    fn new(port: u16, rid: u16, priority: u8) -> Self {
        Route(u64::from(priority) << 32 | u64::from(rid) << 16 | u64::from(port))
    }

    #[inline]
    fn port(self) -> u16 {
        self.0 as u16
    }

    #[inline]
    fn rid(self) -> u16 {
        (self.0 >> 16) as u16
    }

    #[inline]
    fn priority(self) -> u8 {
        (self.0 >> 32) as u8
    }
}

/// A packet that is queued behind its clones, or a copy, which has not been queued yet.
pub(super) struct Copied {
    packet: Box<Packet>,
    route: Route,
}

/// The replicas of a session that there may still be copies for; what is beyond is counted.
#[inline]
fn copies_of<'s>(session: &'s CloneSession, copies: &mut u32, discarded: &mut u64) -> &'s [(u16, u16)] {
    let room = (MAX_COPIES - *copies) as usize;
    let made = session.replicas.len().min(room);
    *copies += made as u32;
    *discarded += (session.replicas.len() - made) as u64;
    &session.replicas[..made]
}

/// What a packet's drop is accounted to. Copies never reach the flow's queue, and their flow field was reset.
#[inline]
fn flow_of(packet: &Packet) -> Option<u32> {
    (packet.generation() == 0).then_some(packet.flow())
}

impl Switch {
    /// A packet that has waited starts on its link.
    #[inline(always)]
    pub(super) fn start(&mut self, dequeued: Dequeued<Box<Packet>>, output: &mut impl Output) {
        let EgressMeta { port, priority, timestamp: start_ns, .. } = *self.tm.meta();
        self.now_ns = self.now_ns.max(start_ns);
        self.devices.select(port);
        self.prefetch(dequeued.queue);
        self.depart::<false>(dequeued, output);
        self.tell(port, priority);
        self.pass_copies(start_ns, output);
    }

    /// A long queue has left the processor's caches: what follows is asked for while this packet is worked on, first the
    /// description, which says where the rest is, two packets later the rest.
    #[inline]
    fn prefetch(&self, queue: QueueNumber) {
        let Some(unit) = &self.devices.unit else {
            return;
        };
        if let [Some(near), far] = self.tm.peek(queue, [1, 3]) {
            unit.pipeline.prefetch(near);
            if let Some(far) = far {
                far.prefetch();
            }
        }
    }

    #[inline(always)]
    pub(super) fn admit(&mut self, port: u16, now_ns: u64, mut packet: Box<Packet>, output: &mut impl Output) {
        self.devices.select(port);
        let Some(unit) = &mut self.devices.unit else {
            self.discards.no_pipeline += 1;
            self.pool().give(packet);
            return;
        };
        if let Some(telemetry) = &mut self.telemetry {
            telemetry.arrive(packet.bytes().get(self.preceding..).unwrap_or_default());
        }
        let verdict = unit.pipeline.ingress(&mut packet, port, now_ns);
        if let Some(number) = verdict.clone {
            self.clone_at_ingress(number, &packet);
        }
        match verdict.forward {
            Forward::Unicast { port, priority } => {
                let route = Route::new(port, 0, priority);
                if verdict.clone.is_some() {
                    self.pass_behind_clones(now_ns, packet, route, output);
                } else {
                    self.pass(now_ns, packet, route, output);
                }
            }
            Forward::Multicast { group, priority } => self.replicate(now_ns, (group, priority), packet, output),
            Forward::Again => self.resubmit(port, now_ns, packet, output),
            Forward::Drop => {
                self.discards.ingress += 1;
                self.record_drop_at_ingress(&packet, port, now_ns, output);
                self.pool().give(packet);
                self.pass_copies(now_ns, output);
            }
        }
    }

    /// Queues a packet behind the clones that ingress has made of it, as BMv2 does.
    #[cold]
    #[inline(never)]
    fn pass_behind_clones(&mut self, now_ns: u64, packet: Box<Packet>, route: Route, output: &mut impl Output) {
        self.copied.push_back(Copied { packet, route });
        self.pass_copies(now_ns, output);
    }

    /// A replica of the packet for each member of a multicast group, behind the copies that were made of it.
    #[cold]
    fn replicate(&mut self, now_ns: u64, (group, priority): (u16, u8), packet: Box<Packet>, output: &mut impl Output) {
        let Some(unit) = &mut self.devices.unit else {
            return;
        };
        let Some(members) = unit.groups.get(group) else {
            self.discards.absent_port += 1;
            unit.pool.give(packet);
            return self.pass_copies(now_ns, output);
        };
        let room = (MAX_COPIES - self.copies) as usize;
        let made = members.replicas.len().min(room);
        self.copies += made as u32;
        self.discards.clones += (members.replicas.len() - made) as u64;
        for &(port, rid) in &members.replicas[..made] {
            let mut copy = unit.pool.blank(packet.bytes().len());
            unit.pipeline.replicate(&packet, &mut copy);
            self.copied.push_back(Copied { packet: copy, route: Route::new(port, rid, priority) });
        }
        unit.pool.give(packet);
        self.pass_copies(now_ns, output);
    }

    /// A packet that goes through ingress again at once: a program that sends it there for ever ends here.
    #[cold]
    #[inline(never)]
    fn resubmit(&mut self, port: u16, now_ns: u64, packet: Box<Packet>, output: &mut impl Output) {
        self.pass_copies(now_ns, output);
        if self.instant_loops >= MAX_INSTANT_LOOPS {
            self.discards.loopback += 1;
            return self.pool().give(packet);
        }
        self.instant_loops += 1;
        self.admit(port, now_ns, packet, output);
        self.instant_loops -= 1;
    }

    /// The same for one that has left egress.
    #[cold]
    #[inline(never)]
    fn recirculate(&mut self, list: u16, now_ns: u64, mut packet: Box<Packet>, output: &mut impl Output) {
        let Some(unit) = &mut self.devices.unit else {
            return;
        };
        // It comes as the program has sent it, which has dealt with the controller's header.
        self.preceding = 0;
        unit.pipeline.deparse(&mut packet);
        if self.telemetry.is_some() {
            self.report(&packet, output);
        }
        let Some(unit) = &mut self.devices.unit else {
            return;
        };
        let port = unit.pipeline.recirculate(&mut packet, list);
        self.resubmit(port, now_ns, packet, output);
    }

    #[cold]
    fn clone_at_ingress(&mut self, number: u16, packet: &Packet) {
        let Some(unit) = &mut self.devices.unit else {
            return;
        };
        let Some(session) = unit.sessions.get(number) else {
            self.discards.clones += 1;
            return;
        };
        let limit = session.limit();
        let made = copies_of(session, &mut self.copies, &mut self.discards.clones);
        for &(port, rid) in made {
            let mut copy = unit.pool.blank(packet.bytes().len());
            unit.pipeline.clone_ingress(packet, &mut copy, limit);
            self.copied.push_back(Copied { packet: copy, route: Route::new(port, rid, session.priority) });
        }
    }

    /// The copy to be queued next.
    #[inline(always)]
    fn next_copy(&mut self) -> Option<Copied> {
        while let Some(next) = self.copied.pop_front() {
            if next.packet.generation() <= MAX_GENERATION {
                return Some(next);
            }
            self.discards.clones += 1;
            self.pool().give(next.packet);
        }
        self.copies = 0;
        None
    }

    /// Queues the copies that were made of a packet.
    #[inline(always)]
    fn pass_copies(&mut self, now_ns: u64, output: &mut impl Output) {
        if let Some(Copied { packet, route }) = self.next_copy() {
            self.pass(now_ns, packet, route, output);
        }
    }

    /// Queues a packet, the copies that are made of it if it starts at once, and those that are made of them.
    #[inline(never)]
    fn pass(&mut self, now_ns: u64, mut packet: Box<Packet>, mut route: Route, output: &mut impl Output) {
        loop {
            self.enqueue(now_ns, packet, route, output);
            match self.next_copy() {
                Some(copy) => Copied { packet, route } = copy,
                None => return,
            }
        }
    }

    #[inline(always)]
    fn enqueue(&mut self, now_ns: u64, mut packet: Box<Packet>, route: Route, output: &mut impl Output) {
        let (port, priority) = (route.port(), route.priority());
        if self.kind(port) == PortKind::Absent || !self.devices.reaches(port) {
            return self.discard_lost(packet);
        }
        if self.telemetry.is_some() {
            self.note_offer(port, priority, &mut packet);
        }
        let length = packet.length();
        match self.tm.start_idle(now_ns, (port, priority), route.rid(), length, |packet| flow_of(packet), packet) {
            Ok(dequeued) => self.depart_at_once::<true>(dequeued, output),
            Err(packet) => self.enqueue_any(now_ns, packet, route, output),
        }
    }

    /// Egress of a packet behind which nothing waits.
    #[inline(always)]
    fn depart_at_once<const PLAIN: bool>(&mut self, dequeued: Dequeued<Box<Packet>>, output: &mut impl Output) {
        let (managed, queue) = (dequeued.managed, dequeued.queue);
        self.depart::<PLAIN>(dequeued, output);
        if managed && !PLAIN {
            self.tell_idle(self.tm.managed_idle(queue));
        }
    }

    /// A packet that has to wait, is dropped, or whose delay varies.
    #[inline(never)]
    fn enqueue_any(&mut self, now_ns: u64, packet: Box<Packet>, route: Route, output: &mut impl Output) {
        let (port, priority) = (route.port(), route.priority());
        if self.tm.held() >= self.tm.pool_limit() {
            // What has left already takes up no room.
            self.send_due(now_ns, output);
        }
        let (length, flow) = (packet.length(), flow_of(&packet));
        let mark =
            |packet: &mut Box<Packet>| self.devices.unit.as_ref().is_some_and(|unit| unit.pipeline.mark_excess(packet));
        match self.tm.enqueue_or_mark(now_ns, (port, priority), route.rid(), length, flow, (packet, mark)) {
            Admission::Queued => self.count_pushed_out(now_ns, (port, priority), output),
            Admission::Dropped(packet) => self.refuse(Cause::Full, now_ns, (port, priority), packet, output),
            Admission::Policed(packet) => self.refuse(Cause::Policer, now_ns, (port, priority), packet, output),
            Admission::NoQueue(packet) => self.discard_lost(packet),
            Admission::Started(dequeued) => return self.depart_at_once::<false>(dequeued, output),
        }
        self.tell(port, priority);
    }

    /// A packet that does not get into the queue.
    fn refuse(&mut self, cause: Cause, at_ns: u64, queue: (u16, u8), packet: Box<Packet>, output: &mut impl Output) {
        self.record_drop(&packet, Dropped { cause, at_ns, enqueued_ns: at_ns, queue: Some(queue) }, output);
        self.pool().give(packet);
    }

    /// Writes the current state of a managed queue to the program's registers.
    #[inline(always)]
    fn tell(&mut self, port: u16, priority: u8) {
        if self.tm.manages() {
            self.tell_managed(port, priority);
        }
    }

    #[inline(never)]
    fn tell_managed(&mut self, port: u16, priority: u8) {
        if let (Some(state), Some(unit)) = (self.tm.managed(port, priority), &mut self.devices.unit) {
            unit.tell(&state);
        }
    }

    /// The same where nothing waits.
    #[inline(always)]
    fn tell_idle(&mut self, state: Option<(u32, u64)>) {
        if let (Some((index, free_ns)), Some(unit)) = (state, &mut self.devices.unit) {
            unit.tell_idle(index, free_ns);
        }
    }

    #[inline]
    fn count_pushed_out(&mut self, at_ns: u64, queue: (u16, u8), output: &mut impl Output) {
        while let Some(PushedOut { queue: number, enqueue_ns, redundant, packet }) = self.tm.next_pushed_out() {
            self.tm.count_pushed_out(number, redundant, packet.length(), flow_of(&packet));
            let cause = if redundant { Cause::AckFilter } else { Cause::Full };
            let place = Dropped { cause, at_ns, enqueued_ns: enqueue_ns, queue: Some(queue) };
            self.record_drop(&packet, place, output);
            self.pool().give(packet);
        }
    }

    /// A frame of a managed queue's timer.
    #[cold]
    pub(super) fn tick(&mut self, tick: &Tick) {
        self.devices.select(tick.port);
        let Some(unit) = &mut self.devices.unit else {
            return;
        };
        let mut packet = unit.pool.take_beginning(TIMER_FRAME_BYTES, TIMER_FRAME_BYTES);
        packet.bytes_mut()[..6].copy_from_slice(&u64::from(tick.index).to_be_bytes()[2..]);
        packet.bytes_mut()[6..].fill(0);
        // The frame itself is discarded: it exists for the program's side effects.
        let _ = unit.pipeline.ingress(&mut packet, TIMER_PORT, tick.at_ns);
        unit.pool.give(packet);
    }

    /// A packet that was sent to a port or queue that does not exist.
    #[cold]
    fn discard_lost(&mut self, packet: Box<Packet>) {
        self.discards.absent_port += 1;
        self.pool().give(packet);
    }

    /// Egress, and on to the delay line. Copies are left in `copied`. `PLAIN`: of a queue whose delay does not vary.
    #[inline(always)]
    fn depart<const PLAIN: bool>(&mut self, dequeued: Dequeued<Box<Packet>>, output: &mut impl Output) {
        let Dequeued { mut packet, queue, mut exit_ns, managed } = dequeued;
        let EgressMeta { port, priority, timestamp: start_ns, queue_delay, .. } = *self.tm.meta();
        let Some(unit) = &mut self.devices.unit else {
            self.discards.no_pipeline += 1;
            self.pool().give(packet);
            return;
        };
        let verdict = unit.pipeline.egress(&mut packet, self.tm.meta());
        if let Some(number) = verdict.clone {
            self.clone_at_egress(number, &packet);
        }
        if self.telemetry.is_some() {
            self.note_watched(&packet);
        }
        if verdict.transmit {
            if managed {
                exit_ns = if PLAIN {
                    let (exit_ns, state) = self.tm.spend_idle(queue, start_ns, packet.length());
                    self.tell_idle(state);
                    exit_ns
                } else {
                    self.tm.spend(queue, start_ns, packet.length())
                };
            }
            self.transmit::<PLAIN>(queue, port, start_ns, exit_ns, packet, output);
        } else if let Some(list) = verdict.again {
            if managed {
                self.tm.pass_over(queue);
            }
            self.recirculate(list, start_ns, packet, output);
        } else {
            if self.telemetry.is_some() {
                self.note_late_drop(port, &packet);
            }
            // One that costs the link its time is not the queue's, but the bottleneck's where this is known of all that it drops.
            if managed || self.is_observed() {
                let (cause, enqueued_ns) = (self.cause_at_egress(&packet), start_ns - queue_delay);
                let place = Dropped { cause, at_ns: start_ns, enqueued_ns, queue: Some((port, priority)) };
                self.record_drop(&packet, place, output);
            }
            if managed {
                self.tm.count_managed_drop(queue, packet.length(), flow_of(&packet));
                if PLAIN {
                    self.tell_idle(self.tm.managed_idle(queue));
                }
            } else {
                self.discards.egress += 1;
            }
            self.pool().give(packet);
        }
    }

    #[inline]
    fn clone_at_egress(&mut self, number: u16, packet: &Packet) {
        let Some(unit) = &mut self.devices.unit else {
            return;
        };
        let Some(session) = unit.sessions.get(number) else {
            self.discards.clones += 1;
            return;
        };
        let limit = session.limit();
        let held = limit.min(packet.bytes().len());
        let made = copies_of(session, &mut self.copies, &mut self.discards.clones);
        for &(port, rid) in made {
            let mut copy = unit.pool.blank(held);
            unit.pipeline.clone_egress(packet, &mut copy, limit);
            self.copied.push_back(Copied { packet: copy, route: Route::new(port, rid, session.priority) });
        }
    }

    /// Puts a packet together and on its way.
    #[inline(always)]
    fn transmit<const PLAIN: bool>(
        &mut self,
        queue: QueueNumber,
        port: u16,
        start_ns: u64,
        exit_ns: u64,
        mut packet: Box<Packet>,
        output: &mut impl Output,
    ) {
        if let Some(unit) = &mut self.devices.unit {
            unit.pipeline.deparse(&mut packet);
        }
        if self.telemetry.is_some() {
            self.report(&packet, output);
        }
        if !PLAIN && self.tm.doubles(queue) {
            self.put_twice(queue, port, start_ns, exit_ns, packet, output);
        } else {
            self.put_on_its_way(queue, port, start_ns, exit_ns, packet, output);
        }
    }

    #[cold]
    fn put_twice(
        &mut self,
        queue: QueueNumber,
        port: u16,
        start_ns: u64,
        exit_ns: u64,
        packet: Box<Packet>,
        output: &mut impl Output,
    ) {
        let copy = packet.clone();
        self.put_on_its_way(queue, port, start_ns, exit_ns, packet, output);
        let exit_ns = self.tm.double(queue, copy.length(), flow_of(&copy));
        self.put_on_its_way(queue, port, start_ns, exit_ns, copy, output);
    }

    #[inline(always)]
    fn put_on_its_way(
        &mut self,
        queue: QueueNumber,
        port: u16,
        start_ns: u64,
        exit_ns: u64,
        packet: Box<Packet>,
        output: &mut impl Output,
    ) {
        if exit_ns > start_ns {
            self.tm.delay(queue, exit_ns, packet);
        } else if !self.tm.has_exit(start_ns, queue) {
            self.emit(port, exit_ns, packet, output);
        } else if self.kind(port) == PortKind::Loopback {
            self.tm.delay(queue, exit_ns, packet);
        } else {
            self.send_due(start_ns, output);
            self.emit(port, exit_ns, packet, output);
        }
    }

    #[inline(always)]
    pub(super) fn emit(&mut self, port: u16, exit_ns: u64, packet: Box<Packet>, output: &mut impl Output) {
        if self.loops && self.kind(port) == PortKind::Loopback {
            self.loop_back(port, exit_ns, packet);
        } else {
            output.send(port, exit_ns, packet, self.pool());
        }
    }

    pub(super) fn loop_back(&mut self, port: u16, exit_ns: u64, packet: Box<Packet>) {
        let (length, held) = (packet.frame_length() as usize, packet.bytes().len());
        // Of a packet that has waited for anything, by rate or delay, it is the first time at this instant.
        let instant_loops = self.instant_loops + 1;
        let full = self.looped.len() + self.tm.held() >= self.tm.pool_limit() || instant_loops > MAX_INSTANT_LOOPS;
        let far = self.far_ends[usize::from(port)];
        match self.unit(self.device_of(far)) {
            None => self.discards.no_pipeline += 1,
            // A frame that lost headers may have less than the program looks at, if only its beginning is held.
            Some(unit) if full || held < length.min(unit.parsed) => self.discards.loopback += 1,
            Some(unit) => {
                let mut again = unit.pool.take_beginning(length, held);
                again.bytes_mut().copy_from_slice(packet.bytes());
                self.looped.push_back(Looped { port: far, exit_ns, packet: again, instant_loops });
            }
        }
        self.pool_of(port).give(packet);
    }
}
