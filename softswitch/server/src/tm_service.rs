//! The RPCs of narrows.v1.TrafficManager.
// SPDX-License-Identifier: Apache-2.0
use std::sync::Arc;

use narrows_proto::narrows::v1::{self as narrows, traffic_manager_server::TrafficManager};
use narrows_proto::p4::v1::Uint128;
use narrows_switch::io::{link_is_up, DataPath, Handle, HoldError};
use narrows_switch::switch::PortKind;
use narrows_switch::telemetry::Flow;
use narrows_switch::tm::{Drops, FlowCause, PRIORITIES};
use tonic::{Request, Response, Status};

use crate::p4runtime::{to_its_end, unavailable, Devices};
use crate::telemetry_messages::{flow_message, telemetry};
use crate::tm_messages::{changes, flow_cause, queue_message};

/// Flows whose drops one answer has at most: some 2 MiB.
const FLOWS_AT_ONCE: usize = 65_536;
/// Flows with all that was counted of them that one answer has at most: some 2 MiB.
const OBSERVED_AT_ONCE: usize = 16_384;

/// Serves narrows.v1.TrafficManager.
pub struct TrafficManagerService {
    handle: Handle,
    devices: Devices,
    loopbacks: Arc<[u16]>,
}

impl TrafficManagerService {
    /// A server for the switch of these devices; `loopbacks` are its ports without an interface.
    pub fn new(devices: Devices, loopbacks: Arc<[u16]>) -> Self {
        TrafficManagerService { handle: devices.first().handle.clone(), devices, loopbacks }
    }
}

/// Checks that the switch has this port, and a queue of this number.
fn queue_of(data_path: &DataPath, port: u32, queue: u32) -> Result<(u16, u8), Status> {
    let known = u16::try_from(port).ok().filter(|port| data_path.switch.kind(*port) != PortKind::Absent);
    let known = known.ok_or_else(|| Status::invalid_argument(format!("port {port}: the switch has no such port")))?;
    match u8::try_from(queue).ok().filter(|queue| usize::from(*queue) < PRIORITIES) {
        Some(queue) => Ok((known, queue)),
        None => Err(Status::invalid_argument(format!("queue {queue}: allowed are 0 to {}", PRIORITIES - 1))),
    }
}

/// What List and Hold read: the queues, and drops of some by flow, whose pages are made where no packet waits for it.
struct Reading {
    list: narrows::ListResponse,
    drops: Vec<(Vec<(u32, Drops)>, u32)>,
}

impl Reading {
    /// Of this instant.
    fn of(data_path: &DataPath, asked: &narrows::ListRequest) -> Result<Self, Status> {
        let tm = &data_path.switch.tm;
        let drops = asked.flow_drops.iter().map(|one| Ok((drops_of(data_path, one)?, one.first_flow)));
        let drops = drops.collect::<Result<_, Status>>()?;
        let timestamp_ns = data_path.switch.now_ns();
        let list = narrows::ListResponse {
            queues: tm.status().iter().map(|status| queue_message(status, timestamp_ns)).collect(),
            timestamp_ns,
            pool_used_packets: tm.held() as u64,
            pool_limit_packets: tm.pool_limit() as u64,
            flow_drops: vec![],
        };
        Ok(Reading { list, drops })
    }

    fn into_message(self) -> narrows::ListResponse {
        let pages = self.drops.into_iter().map(|(drops, first_flow)| page_of(drops, first_flow));
        narrows::ListResponse { flow_drops: pages.collect(), ..self.list }
    }
}

/// Checks that the switch has what is asked for: port, queue and cause.
fn subject_of(data_path: &DataPath, asked: &narrows::FlowDropsRequest) -> Result<(u16, u8, FlowCause), Status> {
    let (port, queue) = queue_of(data_path, asked.port, asked.queue)?;
    Ok((port, queue, flow_cause(asked.cause).map_err(Status::invalid_argument)?))
}

/// A queue's drops by flow.
fn drops_of(data_path: &DataPath, asked: &narrows::FlowDropsRequest) -> Result<Vec<(u32, Drops)>, Status> {
    let (port, queue, cause) = subject_of(data_path, asked)?;
    data_path.switch.tm.flows(port, queue, cause).map_err(Status::resource_exhausted)
}

/// As much as one answer has of a queue's drops by flow, in order of flow.
fn page_of(mut drops: Vec<(u32, Drops)>, first_flow: u32) -> narrows::FlowDropsResponse {
    drops.retain(|(flow, _)| *flow >= first_flow);
    drops.sort_unstable_by_key(|(flow, _)| *flow);
    let next_flow = drops.get(FLOWS_AT_ONCE).map(|(flow, _)| *flow);
    let flows = drops.into_iter().take(FLOWS_AT_ONCE);
    let flows = flows.map(|(flow, drops)| narrows::FlowDrop { flow, packets: drops.packets, bytes: drops.bytes });
    narrows::FlowDropsResponse { flows: flows.collect(), next_flow }
}

#[tonic::async_trait]
impl TrafficManager for TrafficManagerService {
    async fn configure(
        &self,
        request: Request<narrows::ConfigureRequest>,
    ) -> Result<Response<narrows::ConfigureResponse>, Status> {
        let request = request.into_inner();
        let election_id = request.election_id.map(|id| Uint128 { high: id.high, low: id.low });
        let (role, port, queue) = (request.role.clone(), request.port, request.queue);
        let changes = changes(request).map_err(Status::invalid_argument)?;
        let configure = move |data_path: &mut DataPath| {
            let queue = queue_of(data_path, port, queue)?;
            let timestamp_ns = data_path.switch.now_ns();
            let tm = &mut data_path.switch.tm;
            let epoch = tm.configure(queue, timestamp_ns, changes).map_err(Status::invalid_argument)?;
            let statuses = tm.status();
            let configured = statuses.iter().find(|status| (status.port, status.priority) == queue);
            let queue = configured.map(|status| queue_message(status, timestamp_ns));
            Ok(narrows::ConfigureResponse { epoch, timestamp_ns, queue })
        };
        let control = Arc::clone(self.devices.first());
        let configured = to_its_end(async move {
            let _primary = control.of_primary(&role, election_id.as_ref()).await?;
            control.handle.call(configure).await.map_err(unavailable)?
        });
        configured.await.map(Response::new)
    }

    async fn start_schedules(
        &self,
        request: Request<narrows::StartSchedulesRequest>,
    ) -> Result<Response<narrows::StartSchedulesResponse>, Status> {
        let request = request.into_inner();
        let election_id = request.election_id.map(|id| Uint128 { high: id.high, low: id.low });
        let start = move |data_path: &mut DataPath| {
            let timestamp_ns = data_path.switch.now_ns();
            let begun = data_path.switch.tm.start_schedules(timestamp_ns, request.epoch_ns);
            let schedules = begun.map_err(Status::invalid_argument)? as u32;
            Ok(narrows::StartSchedulesResponse { schedules, timestamp_ns })
        };
        let control = Arc::clone(self.devices.first());
        let started = to_its_end(async move {
            let _primary = control.of_primary(&request.role, election_id.as_ref()).await?;
            control.handle.call(start).await.map_err(unavailable)?
        });
        started.await.map(Response::new)
    }

    async fn hold(&self, request: Request<narrows::HoldRequest>) -> Result<Response<narrows::HoldResponse>, Status> {
        let request = request.into_inner();
        let election_id = request.election_id.map(|id| Uint128 { high: id.high, low: id.low });
        let list = request.list;
        let subjects = list.iter().flat_map(|list| list.flow_drops.clone()).collect::<Vec<_>>();
        let hold = move |data_path: &mut DataPath| {
            // Nothing is held by a request that asks for what there is not.
            subjects.iter().try_for_each(|asked| subject_of(data_path, asked).map(drop))?;
            data_path.hold(request.at_ns).map_err(|error| match error {
                HoldError::RealTime => Status::failed_precondition(error.to_string()),
                HoldError::Past(_) => Status::invalid_argument(error.to_string()),
            })
        };
        let control = Arc::clone(self.devices.first());
        let asked = to_its_end(async move {
            let _primary = control.of_primary(&request.role, election_id.as_ref()).await?;
            control.handle.call(hold).await.map_err(unavailable)?
        });
        // Others may change what they want until then.
        let reached = asked.await?.await;
        let timestamp_ns = reached.map_err(|_| Status::aborted("another hold took the place of this one"))?;
        let Some(list) = list else {
            return Ok(Response::new(narrows::HoldResponse { timestamp_ns, list: None }));
        };
        let read = move |data_path: &mut DataPath| Reading::of(data_path, &list);
        let reading = self.handle.call(read).await.map_err(unavailable)??;
        Ok(Response::new(narrows::HoldResponse { timestamp_ns, list: Some(reading.into_message()) }))
    }

    async fn list(&self, request: Request<narrows::ListRequest>) -> Result<Response<narrows::ListResponse>, Status> {
        let request = request.into_inner();
        let read = move |data_path: &mut DataPath| Reading::of(data_path, &request);
        let reading = self.handle.call(read).await.map_err(unavailable)??;
        Ok(Response::new(reading.into_message()))
    }

    async fn flow_drops(
        &self,
        request: Request<narrows::FlowDropsRequest>,
    ) -> Result<Response<narrows::FlowDropsResponse>, Status> {
        let request = request.into_inner();
        let first_flow = request.first_flow;
        let read = move |data_path: &mut DataPath| drops_of(data_path, &request);
        let drops = self.handle.call(read).await.map_err(unavailable)??;
        Ok(Response::new(page_of(drops, first_flow)))
    }

    async fn observe(
        &self,
        request: Request<narrows::ObserveRequest>,
    ) -> Result<Response<narrows::ObserveResponse>, Status> {
        let request = request.into_inner();
        let election_id = request.election_id.map(|id| Uint128 { high: id.high, low: id.low });
        let role = request.role.clone();
        let telemetry = telemetry(request).map_err(Status::invalid_argument)?;
        let observe = move |data_path: &mut DataPath| {
            data_path.switch.set_telemetry(telemetry).map_err(Status::invalid_argument)?;
            Ok(narrows::ObserveResponse { timestamp_ns: data_path.switch.now_ns() })
        };
        let control = Arc::clone(self.devices.first());
        let observed = to_its_end(async move {
            let _primary = control.of_primary(&role, election_id.as_ref()).await?;
            control.handle.call(observe).await.map_err(unavailable)?
        });
        observed.await.map(Response::new)
    }

    async fn observed_flows(
        &self,
        request: Request<narrows::ObservedFlowsRequest>,
    ) -> Result<Response<narrows::ObservedFlowsResponse>, Status> {
        let skip = request.into_inner().skip as usize;
        let read = move |data_path: &mut DataPath| {
            let flows = data_path.switch.telemetry().map_or(&[][..], |telemetry| telemetry.flows());
            let page = flows.iter().skip(skip).take(OBSERVED_AT_ONCE);
            (page.copied().collect::<Vec<Flow>>(), flows.len() as u32)
        };
        let (page, seen) = self.handle.call(read).await.map_err(unavailable)?;
        let flows = page.iter().map(flow_message).collect();
        Ok(Response::new(narrows::ObservedFlowsResponse { flows, seen }))
    }

    async fn port_stats(
        &self,
        _: Request<narrows::PortStatsRequest>,
    ) -> Result<Response<narrows::PortStatsResponse>, Status> {
        let read = |data_path: &mut DataPath| {
            let ports = data_path.ports().iter_mut();
            let ports = ports.map(|port| (port.number, port.name.clone(), port.counters())).collect::<Vec<_>>();
            (ports, data_path.switch.discards(), data_path.digests_dropped(), data_path.packet_ins_dropped())
        };
        let (interfaces, discards, digests_dropped, packet_ins_dropped) =
            self.handle.call(read).await.map_err(unavailable)?;
        let interfaces = interfaces.into_iter().map(|(number, name, counters)| narrows::Port {
            port: number.into(),
            link_up: link_is_up(&name),
            interface: name,
            rx_packets: counters.rx_packets,
            rx_bytes: counters.rx_bytes,
            tx_packets: counters.tx_packets,
            tx_bytes: counters.tx_bytes,
            rx_ring_drops: counters.rx_ring_drops,
            rx_errors: counters.rx_errors,
            tx_drops: counters.tx_drops,
            tx_errors: counters.tx_errors,
            rx_partial_checksums: counters.rx_partial_checksums,
            tx_late: counters.tx_late,
            rx_held: counters.rx_held,
            rx_longest_held_ns: counters.rx_longest_held_ns,
        });
        let loopbacks = self.loopbacks.iter();
        let loopbacks =
            loopbacks.map(|port| narrows::Port { port: (*port).into(), link_up: true, ..Default::default() });
        let mut ports: Vec<narrows::Port> = interfaces.chain(loopbacks).collect();
        ports.sort_by_key(|port| port.port);
        Ok(Response::new(narrows::PortStatsResponse {
            ports,
            discards: Some(narrows::Discards {
                no_pipeline: discards.no_pipeline,
                ingress: discards.ingress,
                egress: discards.egress,
                absent_port: discards.absent_port,
                clones: discards.clones,
                loopback: discards.loopback,
                digests: digests_dropped + self.devices.iter().map(|device| device.digests().dropped()).sum::<u64>(),
                packet_ins: packet_ins_dropped
                    + self.devices.iter().map(|device| device.packet_ins_lost()).sum::<u64>(),
            }),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_by_flow_come_in_pages() {
        let count = FLOWS_AT_ONCE as u32 + 10;
        let drops = |flow: u32| (3 * flow, Drops { packets: 1, bytes: u64::from(flow) });
        let all: Vec<_> = (0..count).rev().map(drops).collect();
        let first = page_of(all.clone(), 0);
        assert_eq!((first.flows.len(), first.next_flow), (FLOWS_AT_ONCE, Some(3 * FLOWS_AT_ONCE as u32)));
        let rest = page_of(all, first.next_flow.expect("more"));
        assert_eq!((rest.flows.len(), rest.next_flow), (10, None));
        let flows = first.flows.iter().chain(&rest.flows).map(|drop| drop.flow);
        assert!(flows.eq((0..count).map(|flow| 3 * flow)));
    }
}
