//! Queues, ports and what the switch has thrown away, for Prometheus.
// SPDX-License-Identifier: Apache-2.0
use std::io;

use narrows_metrics::{Endpoint, Labels, Page};
use narrows_switch::io::{DataPath, Handle};
use narrows_switch::tm::QueueStatus;

const NANOSECONDS: f64 = 1e9;

/// Serves the metrics until the switch ends; each request reads them from the data path, whose devices have these ids.
///
/// # Errors
/// If there can be no thread.
pub fn serve(endpoint: Endpoint, handle: Handle, devices: Vec<u64>) -> io::Result<()> {
    endpoint.serve(move || {
        let (handle, devices) = (handle.clone(), devices.clone());
        async move {
            let page = handle.call(move |data_path| page(data_path, &devices)).await;
            // Without a data path the switch is about to end. Writing into memory does not fail.
            page.ok().and_then(|page| page.text().ok()).unwrap_or_default()
        }
    })
}

fn page(data_path: &mut DataPath, devices: &[u64]) -> Page {
    let mut page = Page::default();
    let tm = &data_path.switch.tm;
    add_queues(&mut page, &tm.status());
    page.gauges(
        "narrows_pool_used_packets",
        "Packets in all queues and delay lines",
        [(Labels::new(), tm.held() as f64)].into_iter(),
    );
    page.gauges(
        "narrows_pool_limit_packets",
        "Packets that all queues and delay lines can hold",
        [(Labels::new(), tm.pool_limit() as f64)].into_iter(),
    );
    add_ports(&mut page, data_path);
    let interpreted = devices.iter().enumerate().filter_map(|(device, id)| {
        let program = data_path.switch.unit(device)?.pipeline.program();
        Some((vec![("device", id.to_string())], f64::from(u8::from(program.interpreted().is_some()))))
    });
    page.gauges(
        "narrows_program_interpreted",
        "1: the program runs without native code, at about a third of its speed; 0: with it",
        interpreted,
    );
    let (discards, digests) = (data_path.switch.discards(), data_path.digests_dropped());
    let causes = [
        ("no_pipeline", discards.no_pipeline),
        ("ingress", discards.ingress),
        ("egress", discards.egress),
        ("absent_port", discards.absent_port),
        ("clones", discards.clones),
        ("loopback", discards.loopback),
        ("digests", digests),
        ("packet_ins", data_path.packet_ins_dropped()),
    ];
    page.counters(
        "narrows_switch_discards",
        "Packets, packet-ins and digests that the switch threw away outside its queues",
        causes.into_iter().map(|(cause, count)| (vec![("cause", cause.into())], count)),
    );
    page
}

fn add_queues(page: &mut Page, queues: &[QueueStatus]) {
    let labels = |queue: &QueueStatus| -> Labels {
        vec![("port", queue.port.to_string()), ("queue", queue.priority.to_string())]
    };
    let with = |queue: &QueueStatus, cause: &str| -> Labels {
        let mut labels = labels(queue);
        labels.push(("cause", cause.into()));
        labels
    };
    let gauge = |of: fn(&QueueStatus) -> f64| queues.iter().map(move |queue| (labels(queue), of(queue)));
    let count = |of: fn(&QueueStatus) -> u64| queues.iter().map(move |queue| (labels(queue), of(queue)));
    page.gauges(
        "narrows_queue_rate_bits_per_second",
        "Rate that is set, before any schedule; infinite: no limit",
        gauge(|queue| queue.curve.rate.bps().map_or(f64::INFINITY, |rate| rate as f64)),
    );
    page.gauges("narrows_queue_limit_bytes", "Bytes that may wait; 0: no limit", gauge(|q| q.limit_bytes as f64));
    page.gauges("narrows_queue_limit_packets", "Packets that may wait; 0: no limit", gauge(|q| q.limit_packets as f64));
    page.gauges(
        "narrows_queue_delay_line_seconds",
        "Constant delay of the port behind its queues",
        gauge(|queue| queue.delay_ns as f64 / NANOSECONDS),
    );
    page.gauges("narrows_queue_depth_bytes", "Bytes waiting", gauge(|queue| queue.depth_bytes as f64));
    page.gauges("narrows_queue_depth_packets", "Packets waiting", gauge(|queue| queue.depth_packets as f64));
    page.gauges(
        "narrows_queue_peak_depth_bytes",
        "Most bytes that ever waited at once",
        gauge(|queue| queue.counters.peak_depth_bytes as f64),
    );
    page.counters("narrows_queue_enqueued_packets", "Packets admitted", count(|queue| queue.counters.enqueued_packets));
    page.counters("narrows_queue_enqueued_bytes", "Bytes admitted", count(|queue| queue.counters.enqueued_bytes));
    page.counters(
        "narrows_queue_dequeued_packets",
        "Packets started on the link",
        count(|queue| queue.counters.dequeued_packets),
    );
    page.counters(
        "narrows_queue_dequeued_bytes",
        "Bytes started on the link",
        count(|queue| queue.counters.dequeued_bytes),
    );
    page.counters(
        "narrows_queue_drops_packets",
        "Packets that did not get through the queue",
        queues.iter().flat_map(|queue| {
            let counters = &queue.counters;
            let causes = [
                (
                    "tail",
                    counters.dropped_packets
                        - counters.pool_dropped_packets
                        - counters.policed_packets
                        - counters.redundant_packets,
                ),
                ("policer", counters.policed_packets),
                ("ack-filter", counters.redundant_packets),
                ("pool", counters.pool_dropped_packets),
                ("aqm", counters.managed_drop_packets),
                ("flushed", counters.flushed_packets),
            ];
            causes.map(|(cause, count)| (with(queue, cause), count))
        }),
    );
    page.counters(
        "narrows_queue_duplicated_packets",
        "Packets that left the delay line twice",
        count(|queue| queue.counters.duplicated_packets),
    );
}

fn add_ports(page: &mut Page, data_path: &mut DataPath) {
    let ports: Vec<_> =
        data_path.ports().iter_mut().map(|port| (port.number, port.name.clone(), port.counters())).collect();
    let labels = |number: &u16, name: &str| vec![("port", number.to_string()), ("interface", name.to_owned())];
    macro_rules! add {
        ($($field:ident: $name:literal, $help:literal;)*) => {$(
            let values = ports.iter().map(|(number, name, counters)| (labels(number, name), counters.$field));
            page.counters($name, $help, values);
        )*};
    }
    add! {
        rx_packets: "narrows_port_receive_packets", "Packets received";
        rx_bytes: "narrows_port_receive_bytes", "Bytes received";
        tx_packets: "narrows_port_transmit_packets", "Packets sent";
        tx_bytes: "narrows_port_transmit_bytes", "Bytes sent";
        rx_ring_drops: "narrows_port_receive_ring_drops", "Packets that found the receive ring full";
        rx_errors: "narrows_port_receive_errors", "Packets too long";
        tx_drops: "narrows_port_transmit_drops", "Packets for which the interface had no place";
        tx_errors: "narrows_port_transmit_errors", "Packets that the interface refused";
    }
}
