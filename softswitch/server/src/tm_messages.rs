//! Settings of queues and links as messages of narrows.v1.
// SPDX-License-Identifier: Apache-2.0
use std::sync::Arc;

use narrows_proto::narrows::v1 as narrows;
use narrows_switch::line::{DelaySteps, Jitter, Variation};
use narrows_switch::tm::{
    AggregationSettings, BucketSettings, Changes, DelayChange, FlowCause, Framing, LinkLayer, Management,
    Opportunities, PolicerSettings, QueueStatus, Rate, RateSchedule, Schedule, Scheduling, Steps, NEVER, PRIORITIES,
};

/// What a request asks for. Errors: name the field, and what is allowed.
pub fn changes(request: narrows::ConfigureRequest) -> Result<Changes, String> {
    let rate = match (request.unlimited, request.rate_bps) {
        (true, Some(rate)) => return Err(format!("rate_bps {rate} and unlimited: allowed is one of them")),
        (true, None) => Some(Rate::Unlimited),
        (false, rate) => rate.map(Rate::Bps),
    };
    Ok(Changes {
        rate,
        schedule: request.rate_schedule.map(rate_schedule).transpose()?,
        burst_bytes: request.burst_bytes,
        limit_bytes: request.limit_bytes,
        limit_packets: request.limit_packets,
        delay_ns: request.delay_ns,
        delay: DelayChange {
            steps: request.delay_schedule.map(delay_schedule).transpose()?,
            variation: request.variation.map(variation).transpose()?,
        },
        head_drop: request.head_drop,
        policer: request.policer.map(policer).transpose()?,
        framing: request.framing.map(framing).transpose()?,
        ack_filter: request.ack_filter.map(|filter| filter.enabled.then_some(filter.keep)),
        aggregation: request.aggregation.map(aggregation).transpose()?,
        management: request.management.map(management).transpose()?,
    })
}

fn rate_schedule(given: narrows::RateSchedule) -> Result<RateSchedule, String> {
    use narrows::rate_schedule::Kind;
    let schedule = match given.kind.ok_or("rate_schedule: steps or opportunities are missing")? {
        Kind::Steps(given) => {
            let (starts, rates) = given.steps.iter().map(|step| (step.start_ns, step.rate_bps)).unzip();
            let steps = Steps::new(starts, rates, given.period_ns);
            Schedule::Steps(Arc::new(steps.map_err(|error| format!("rate_schedule.steps: {error}"))?))
        }
        Kind::Opportunities(given) => {
            let opportunities = Opportunities::new(given.at_ns, given.r#loop);
            let opportunities = opportunities.map_err(|error| format!("rate_schedule.opportunities: {error}"))?;
            Schedule::Opportunities(Arc::new(opportunities))
        }
    };
    Ok(RateSchedule { schedule, epoch_ns: given.epoch_ns })
}

fn delay_schedule(given: narrows::DelaySchedule) -> Result<(Arc<DelaySteps>, Option<u64>), String> {
    let (starts, delays) = given.steps.iter().map(|step| (step.start_ns, step.delay_ns)).unzip();
    let jitters: Vec<u64> = given.steps.iter().map(|step| step.jitter_ns).collect();
    let steps = DelaySteps::new(starts, delays, given.period_ns)
        .and_then(|steps| if given.gathers { steps.gathering() } else { Ok(steps) })
        .and_then(|steps| if jitters.iter().any(|jitter| *jitter > 0) { steps.jittering(jitters) } else { Ok(steps) });
    Ok((Arc::new(steps.map_err(|error| format!("delay_schedule: {error}"))?), given.epoch_ns))
}

fn variation(given: narrows::Variation) -> Result<Variation, String> {
    use narrows::variation::Jitter as Kind;
    let jitter = match given.jitter {
        None => Jitter::None,
        Some(Kind::UniformNs(most_ns)) => Jitter::Uniform { most_ns },
        Some(Kind::NormalNs(deviation_ns)) => Jitter::Normal { deviation_ns },
        Some(Kind::Pareto(narrows::Pareto { scale_ns, shape })) => Jitter::Pareto { scale_ns, shape },
        Some(Kind::Samples(samples)) => Jitter::Samples(samples.delay_ns.into()),
    };
    Variation::new(jitter, given.reorder, given.duplicate, given.seed).map_err(|error| format!("variation: {error}"))
}

fn management(given: narrows::Management) -> Result<Option<Management>, String> {
    use narrows::management::Scheduling as Kind;
    if !given.enabled {
        return Ok(None);
    }
    let scheduling = match given.scheduling {
        None => Scheduling::Fifo,
        Some(Kind::Coupled(narrows::Coupled { classic_percent, mtu })) => {
            Scheduling::Coupled { classic_percent: u8::try_from(classic_percent).unwrap_or(u8::MAX), mtu }
        }
        Some(Kind::Fair(narrows::Fair { queues, quantum, batch })) => Scheduling::Fair { queues, quantum, batch },
        Some(Kind::Strict(narrows::Strict {})) => Scheduling::Strict,
        Some(Kind::Deficit(narrows::Deficit { quanta })) => {
            let number = quanta.len();
            let quanta = quanta.try_into().map_err(|_| {
                format!("management: quanta: there are {number}; allowed is one for each priority, {PRIORITIES}")
            })?;
            Scheduling::Deficit { quanta }
        }
    };
    let made = Management::new(given.index, given.period_ns, scheduling);
    made.map(Some).map_err(|error| format!("management: {error}"))
}

fn policer(given: narrows::Policer) -> Result<Option<PolicerSettings>, String> {
    if !given.enabled {
        return Ok(None);
    }
    let bucket =
        |bucket: narrows::Bucket| BucketSettings { rate_bps: bucket.rate_bps, burst_bytes: bucket.burst_bytes };
    let committed = given.committed.ok_or("policer: committed is missing")?;
    let made = PolicerSettings::new(bucket(committed), given.peak.map(bucket));
    let made = made.map_err(|error| format!("policer: {error}"))?;
    Ok(Some(PolicerSettings { marks: given.marks, ..made }))
}

fn framing(given: narrows::Framing) -> Result<Framing, String> {
    let link_layer = match given.link_layer() {
        narrows::LinkLayer::Ethernet => LinkLayer::Ethernet,
        narrows::LinkLayer::Atm => LinkLayer::Atm,
        narrows::LinkLayer::Ptm => LinkLayer::Ptm,
    };
    Framing::new(given.overhead, given.mpu, link_layer).map_err(|error| format!("framing: {error}"))
}

fn framing_message(framing: Framing) -> narrows::Framing {
    let link_layer = match framing.link_layer() {
        LinkLayer::Ethernet => narrows::LinkLayer::Ethernet,
        LinkLayer::Atm => narrows::LinkLayer::Atm,
        LinkLayer::Ptm => narrows::LinkLayer::Ptm,
    };
    narrows::Framing { overhead: framing.overhead(), mpu: framing.mpu(), link_layer: link_layer.into() }
}

fn aggregation(given: narrows::Aggregation) -> Result<Option<AggregationSettings>, String> {
    if !given.enabled {
        return Ok(None);
    }
    let made = AggregationSettings::new(given.packets, given.bytes, given.overhead_ns);
    made.map(Some).map_err(|error| format!("aggregation: {error}"))
}

fn aggregation_message(aggregation: AggregationSettings) -> narrows::Aggregation {
    let AggregationSettings { packets, bytes, overhead_ns } = aggregation;
    narrows::Aggregation { enabled: true, packets, bytes, overhead_ns }
}

fn policer_message(policer: PolicerSettings) -> narrows::Policer {
    let bucket =
        |bucket: BucketSettings| narrows::Bucket { rate_bps: bucket.rate_bps, burst_bytes: bucket.burst_bytes };
    narrows::Policer {
        enabled: true,
        committed: Some(bucket(policer.committed)),
        peak: policer.peak.map(bucket),
        marks: policer.marks,
    }
}

fn management_message(management: Management) -> narrows::Management {
    use narrows::management::Scheduling as Kind;
    let scheduling = match management.scheduling {
        Scheduling::Fifo => None,
        Scheduling::Coupled { classic_percent, mtu } => {
            Some(Kind::Coupled(narrows::Coupled { classic_percent: classic_percent.into(), mtu }))
        }
        Scheduling::Fair { queues, quantum, batch } => Some(Kind::Fair(narrows::Fair { queues, quantum, batch })),
        Scheduling::Strict => Some(Kind::Strict(narrows::Strict {})),
        Scheduling::Deficit { quanta } => Some(Kind::Deficit(narrows::Deficit { quanta: quanta.into() })),
    };
    narrows::Management { enabled: true, index: management.index, period_ns: management.period_ns, scheduling }
}

/// The cause that a request for drops by flow names. Errors: an unknown one.
pub fn flow_cause(cause: i32) -> Result<FlowCause, String> {
    match narrows::Cause::try_from(cause) {
        Ok(narrows::Cause::Tail) => Ok(FlowCause::Tail),
        Ok(narrows::Cause::Managed) => Ok(FlowCause::Managed),
        Ok(narrows::Cause::Duplicate) => Ok(FlowCause::Duplicate),
        Ok(narrows::Cause::Policed) => Ok(FlowCause::Policed),
        Ok(narrows::Cause::Redundant) => Ok(FlowCause::Redundant),
        Err(_) => Err(format!(
            "cause {cause}: allowed are 0 (tail), 3 (duplicate), 4 (managed), 5 (policed) and 6 (redundant)"
        )),
    }
}

fn schedule_message(entries: usize, period_ns: Option<u64>, epoch_ns: u64) -> narrows::ScheduleStatus {
    let epoch_ns = (epoch_ns != NEVER).then_some(epoch_ns);
    narrows::ScheduleStatus { entries: entries as u64, period_ns, epoch_ns }
}

/// A queue's settings and counters.
pub fn queue_message(status: &QueueStatus, now_ns: u64) -> narrows::Queue {
    let counters = &status.counters;
    let curve = &status.curve;
    let rate_schedule = curve.schedule.as_ref();
    let delay_schedule = status.delay_steps.as_ref();
    narrows::Queue {
        port: status.port.into(),
        queue: status.priority.into(),
        rate_bps: curve.rate.bps().unwrap_or(0),
        unlimited: curve.rate == Rate::Unlimited,
        burst_bytes: status.burst_bytes,
        limit_bytes: status.limit_bytes,
        limit_packets: status.limit_packets,
        delay_ns: status.delay_ns,
        epoch: status.epoch,
        enqueued_packets: counters.enqueued_packets,
        enqueued_bytes: counters.enqueued_bytes,
        dequeued_packets: counters.dequeued_packets,
        dequeued_bytes: counters.dequeued_bytes,
        dropped_packets: counters.dropped_packets,
        dropped_bytes: counters.dropped_bytes,
        depth_bytes: status.depth_bytes,
        depth_packets: status.depth_packets,
        waited_ns: status.oldest_ns.map_or(0, |oldest_ns| now_ns.saturating_sub(oldest_ns)),
        peak_depth_bytes: counters.peak_depth_bytes,
        peak_depth_packets: counters.peak_depth_packets,
        pool_dropped_packets: counters.pool_dropped_packets,
        flushed_packets: counters.flushed_packets,
        flushed_bytes: counters.flushed_bytes,
        rate_schedule: rate_schedule.map(|s| schedule_message(s.entries(), s.period_ns(), curve.epoch_ns)),
        delay_schedule: delay_schedule.map(|s| schedule_message(s.entries(), s.period_ns(), status.delay_epoch_ns)),
        duplicated_packets: counters.duplicated_packets,
        variation: Some(variation_message(&status.variation)),
        pushed_out_packets: counters.pushed_out_packets,
        pushed_out_bytes: counters.pushed_out_bytes,
        managed_drop_packets: counters.managed_drop_packets,
        managed_drop_bytes: counters.managed_drop_bytes,
        head_drop: status.head_drop,
        management: status.management.map(management_message),
        policer: status.policer.map(policer_message),
        framing: Some(framing_message(status.framing)),
        ack_filter: status.ack_filter.map(|keep| narrows::AckFilter { enabled: true, keep }),
        redundant_packets: counters.redundant_packets,
        redundant_bytes: counters.redundant_bytes,
        aggregation: status.aggregation.map(aggregation_message),
        policed_packets: counters.policed_packets,
        policed_bytes: counters.policed_bytes,
    }
}

fn variation_message(variation: &Variation) -> narrows::Variation {
    use narrows::variation::Jitter as Kind;
    let jitter = match variation.jitter() {
        Jitter::None => None,
        Jitter::Uniform { most_ns } => Some(Kind::UniformNs(*most_ns)),
        Jitter::Normal { deviation_ns } => Some(Kind::NormalNs(*deviation_ns)),
        Jitter::Pareto { scale_ns, shape } => {
            Some(Kind::Pareto(narrows::Pareto { scale_ns: *scale_ns, shape: *shape }))
        }
        Jitter::Samples(samples) => Some(Kind::Samples(narrows::Samples { delay_ns: samples.to_vec() })),
    };
    let (reorder, duplicate) = (variation.reorder(), variation.duplicate());
    narrows::Variation { jitter, reorder, duplicate, seed: variation.seed() }
}
