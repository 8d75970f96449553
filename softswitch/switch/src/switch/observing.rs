//! Where the path of a packet meets the telemetry of a program that makes no reports itself.
// SPDX-License-Identifier: Apache-2.0
use narrows_drop_records::Cause;
use narrows_pipeline::Packet;

use super::{Output, PortKind, Switch};
use crate::telemetry::{EarlyDrop, Telemetry};
use crate::tm::PRIORITIES;

impl Switch {
    /// Reports packets from now on as `telemetry` says, which has seen none yet; with `None` no more. Errors: its collector's port
    /// is no interface; packets wait at a bottleneck, of which nothing was noted as they came.
    pub fn set_telemetry(&mut self, telemetry: Option<Telemetry>) -> Result<(), String> {
        if let Some(telemetry) = &telemetry {
            let port = telemetry.collector().port;
            if self.kind(port) != PortKind::Interface {
                return Err(format!("port {port} of the collector: the switch has no interface of that number"));
            }
            for port in telemetry.bottlenecks().iter().map(|bottleneck| bottleneck.port) {
                if self.kind(port) == PortKind::Absent {
                    return Err(format!("port {port}: the switch has no such port"));
                }
                if (0..PRIORITIES).any(|queue| self.tm.depth(port, queue as u8).1 > 0) {
                    return Err(format!("port {port}: packets wait in its queues"));
                }
            }
        }
        self.observed.fill(false);
        for bottleneck in telemetry.iter().flat_map(|telemetry| telemetry.bottlenecks()) {
            self.observed[self.device_of(bottleneck.port)] = true;
        }
        self.telemetry = telemetry.map(Box::new);
        Ok(())
    }

    /// Whether packets of the device at work are reported here, and not by its program.
    pub(super) fn is_observed(&self) -> bool {
        self.observed[self.devices.working()]
    }

    /// The telemetry of a program that makes no reports itself.
    pub fn telemetry(&self) -> Option<&Telemetry> {
        self.telemetry.as_deref()
    }

    /// A packet is offered to a queue.
    #[cold]
    #[inline(never)]
    pub(super) fn note_offer(&mut self, port: u16, priority: u8, packet: &mut Packet) {
        if let Some(telemetry) = self.telemetry.as_deref_mut().filter(|_| packet.generation() == 0) {
            telemetry.offer(port, priority, packet);
        }
    }

    /// A packet leaves its queue, as the program has put it together: for its port, or to go through ingress once more.
    #[cold]
    #[inline(never)]
    pub(super) fn report(&mut self, packet: &Packet, output: &mut impl Output) {
        let Some(telemetry) = self.telemetry.as_deref_mut().filter(|_| packet.generation() == 0) else {
            return;
        };
        let (port, meta) = (telemetry.collector().port, self.tm.meta());
        if let Some(report) = telemetry.depart(meta, packet) {
            let pool = self.devices.pool_of(port);
            output.send(port, meta.timestamp, pool.packet(report), pool);
            if let Some(record) = telemetry.watched() {
                output.departed(record);
            }
        }
    }

    /// Egress has seen a packet: what the watched fields have.
    #[cold]
    #[inline(never)]
    pub(super) fn note_watched(&mut self, packet: &Packet) {
        if let (Some(telemetry), Some(unit)) = (self.telemetry.as_deref_mut(), &self.devices.unit) {
            telemetry.watch(unit.pipeline.watched(packet));
        }
    }

    /// The program's egress drops a packet.
    #[cold]
    #[inline(never)]
    pub(super) fn note_late_drop(&mut self, port: u16, packet: &Packet) {
        if let Some(telemetry) = self.telemetry.as_deref_mut().filter(|_| packet.generation() == 0) {
            telemetry.drop_late(port, packet);
        }
    }

    /// The program's ingress has dropped the packet that came in last by `port`, for `cause` if it has given one.
    pub(super) fn note_early_drop(
        &mut self,
        port: u16,
        cause: Option<Cause>,
        packet: &Packet,
    ) -> Option<(Cause, crate::telemetry::Owner)> {
        let telemetry = self.telemetry.as_deref_mut().filter(|_| packet.generation() == 0)?;
        let (kind, cause) = match cause {
            Some(Cause::LossEmulation) => (EarlyDrop::Loss, Cause::LossEmulation),
            Some(Cause::Management) => (EarlyDrop::Offered, Cause::Management),
            _ => (EarlyDrop::Offered, Cause::ProgramIngress),
        };
        Some((cause, telemetry.drop_early(port, kind, packet.length())?))
    }
}
