//! Telemetry of the traffic manager's own as messages of narrows.v1.
// SPDX-License-Identifier: Apache-2.0
use narrows_proto::narrows::v1 as narrows;
use narrows_switch::telemetry::{Bottleneck, Collector, Count, Flow, Telemetry};

/// What a request asks for. Errors: name the field, and what is allowed.
pub fn telemetry(request: narrows::ObserveRequest) -> Result<Option<Telemetry>, String> {
    let Some(collector) = request.collector else {
        return match request.ports.is_empty() {
            true => Ok(None),
            false => Err("collector: it is missing, and there are ports".to_owned()),
        };
    };
    let bottlenecks = request.ports.iter().map(bottleneck).collect::<Result<_, _>>()?;
    Telemetry::new(self::collector(&collector)?, bottlenecks).map(Some)
}

fn fitting<T: TryFrom<u32>>(field: &str, value: u32, most: u32) -> Result<T, String> {
    T::try_from(value).map_err(|_| format!("{field} {value}: allowed are 0 to {most}"))
}

fn half(field: &str, value: u32) -> Result<u16, String> {
    fitting(field, value, u16::MAX.into())
}

fn mac(field: &str, value: u64) -> Result<[u8; 6], String> {
    match value.to_be_bytes() {
        [0, 0, mac @ ..] => Ok(mac),
        _ => Err(format!("{field} {value:#x}: allowed are 48 bits")),
    }
}

fn collector(given: &narrows::ReportCollector) -> Result<Collector, String> {
    Ok(Collector {
        port: half("collector.port", given.port)?,
        source_mac: mac("collector.source_mac", given.source_mac)?,
        destination_mac: mac("collector.destination_mac", given.destination_mac)?,
        source_address: given.source_address.to_be_bytes(),
        destination_address: given.destination_address.to_be_bytes(),
        source_port: half("collector.source_port", given.source_port)?,
        destination_port: half("collector.destination_port", given.destination_port)?,
        length: half("collector.length", given.length)?,
    })
}

fn bottleneck(given: &narrows::ObservedPort) -> Result<Bottleneck, String> {
    let ingress_ports = given.ingress_ports.iter().map(|port| half("ingress_ports", *port));
    Ok(Bottleneck {
        index: fitting("bottleneck", given.bottleneck, u8::MAX.into())?,
        port: half("port", given.port)?,
        ingress_ports: ingress_ports.collect::<Result<_, _>>()?,
        sample_shift: fitting("sample_shift", given.sample_shift, u8::MAX.into())?,
        sample_seed: given.sample_seed,
    })
}

/// A flow and what was counted of it.
pub fn flow_message(flow: &Flow) -> narrows::ObservedFlow {
    let (source, destination) =
        flow.tuple.addresses().map_or_else(Default::default, |(from, to)| (from.to_string(), to.to_string()));
    let (protocol, source_port, destination_port) = flow.tuple.transport();
    narrows::ObservedFlow {
        bottleneck: flow.bottleneck.into(),
        flow: flow.index.into(),
        signature: flow.signature,
        source,
        destination,
        protocol: protocol.into(),
        source_port: source_port.into(),
        destination_port: destination_port.into(),
        arrivals: count_message(flow.arrivals),
        departures: count_message(flow.departures),
        ingress_drops: count_message(flow.ingress_drops),
        egress_drops: count_message(flow.egress_drops),
        losses: count_message(flow.losses),
    }
}

fn count_message(count: Count) -> Option<narrows::FrameCount> {
    Some(narrows::FrameCount { packets: count.packets, bytes: count.bytes })
}
