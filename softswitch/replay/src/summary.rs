//! What summary.json says of a replay.
// SPDX-License-Identifier: Apache-2.0
use narrows_switch::tm::{Drops, FlowCause};
use serde_json::{json, Value};

use crate::run::Run;

/// What came in and out, and the counters of each queue.
pub fn summary(run: &Run, seed: u64) -> Value {
    let inputs = run.sources.iter().map(|source| {
        let (packets, bytes) = (source.packets, source.bytes);
        json!({
            "port": source.port, "packets": packets, "bytes": bytes,
            "padded_packets": source.padded, "moved_packets": source.moved,
        })
    });
    let outputs = run.sinks.iter().map(
        |(port, sink)| json!({"port": port, "packets": sink.packets, "bytes": sink.bytes, "last_ns": sink.last_ns}),
    );
    let queues = run.switch.tm.status().into_iter().map(|queue| {
        let flows = |cause| by_flow(run.switch.tm.flows(queue.port, queue.priority, cause));
        let counters = queue.counters;
        let rate = queue.curve.rate.bps().map_or(json!("unlimited"), |rate| json!(rate));
        json!({
            "port": queue.port, "queue": queue.priority, "rate_bps": rate,
            "limit_bytes": queue.limit_bytes, "limit_packets": queue.limit_packets,
            "delay_ns": queue.delay_ns, "epoch": queue.epoch,
            "enqueued_packets": counters.enqueued_packets, "enqueued_bytes": counters.enqueued_bytes,
            "dequeued_packets": counters.dequeued_packets, "dequeued_bytes": counters.dequeued_bytes,
            "dropped_packets": counters.dropped_packets, "dropped_bytes": counters.dropped_bytes,
            "pool_dropped_packets": counters.pool_dropped_packets,
            "policed_packets": counters.policed_packets, "policed_bytes": counters.policed_bytes,
            "flow_policed": flows(FlowCause::Policed),
            "redundant_packets": counters.redundant_packets, "redundant_bytes": counters.redundant_bytes,
            "flow_redundant": flows(FlowCause::Redundant),
            "depth_packets": queue.depth_packets, "depth_bytes": queue.depth_bytes,
            "peak_depth_packets": counters.peak_depth_packets, "peak_depth_bytes": counters.peak_depth_bytes,
            "flow_drops": flows(FlowCause::Tail),
            "duplicated_packets": counters.duplicated_packets, "flow_duplicates": flows(FlowCause::Duplicate),
        })
    });
    let discards = run.switch.discards();
    json!({
        "narrows_version": env!("CARGO_PKG_VERSION"),
        "seed": seed,
        "end_ns": run.switch.now_ns(),
        "inputs": inputs.collect::<Vec<_>>(),
        "outputs": outputs.collect::<Vec<_>>(),
        "queues": queues.collect::<Vec<_>>(),
        "held_packets": run.switch.tm.held(),
        "discards": {"ingress": discards.ingress, "egress": discards.egress, "absent_port": discards.absent_port,
                     "clones": discards.clones, "loopback": discards.loopback},
        "digests": run.digests,
    })
}

/// Packets by flow, in order; null where flows are not distinguished: none would be another answer.
fn by_flow(found: Result<Vec<(u32, Drops)>, String>) -> Value {
    let Ok(mut flows) = found else {
        return Value::Null;
    };
    flows.sort_unstable_by_key(|(flow, _)| *flow);
    flows.iter().map(|(flow, drops)| json!({"flow": flow, "packets": drops.packets, "bytes": drops.bytes})).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_that_are_not_distinguished_are_not_none() {
        let drops = Drops { packets: 2, bytes: 142 };
        let row = |flow: u32| json!({"flow": flow, "packets": 2, "bytes": 142});
        assert_eq!(by_flow(Ok(vec![(9, drops), (4, drops)])), json!([row(4), row(9)]));
        assert_eq!(by_flow(Ok(vec![])), json!([]));
        assert_eq!(by_flow(Err("more than 1048576 flows".into())), Value::Null);
    }
}
