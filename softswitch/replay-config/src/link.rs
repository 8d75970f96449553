//! What a replay's configuration says of links that vary, as settings of the traffic manager.
// SPDX-License-Identifier: Apache-2.0
use std::path::Path;
use std::sync::Arc;

use narrows_switch::line::{DelaySteps, Jitter, Variation};
use narrows_switch::tm::{
    AggregationSettings, BucketSettings, Changes, DelayChange, Framing, LinkLayer, Management, Opportunities,
    PolicerSettings, Rate, RateSchedule, Schedule, Steps,
};

use crate::config::{AggregationConfig, FramingConfig, LinkLayerConfig, ManagementConfig, PolicerConfig, QueueConfig};
use crate::link_config::{JitterConfig, RateConfig, VariationConfig, Word};

/// The instants of a Mahimahi trace in nanoseconds. Errors: name the line.
fn mahimahi(path: &Path) -> Result<Vec<u64>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let lines = text.lines().enumerate();
    let instants = lines.map(|(line, text)| {
        let milliseconds = text.parse::<u64>().ok().and_then(|milliseconds| milliseconds.checked_mul(1_000_000));
        milliseconds.ok_or_else(|| format!("{}: line {}: {text:?}: allowed are milliseconds", path.display(), line + 1))
    });
    instants.collect()
}

fn rate_schedule(given: &QueueConfig) -> Result<Option<RateSchedule>, String> {
    match (&given.rate_steps, &given.mahimahi) {
        (None, None) => Ok(None),
        (Some(_), Some(_)) => Err("rate_steps and mahimahi: allowed is one of them".into()),
        (Some(steps), None) => {
            let (starts, rates) = steps.steps.iter().copied().unzip();
            let made = Steps::new(starts, rates, steps.period_ns).map_err(|error| format!("rate_steps: {error}"))?;
            let epoch_ns = Some(steps.epoch_ns.unwrap_or(given.at_ns));
            Ok(Some(RateSchedule { schedule: Schedule::Steps(Arc::new(made)), epoch_ns }))
        }
        (None, Some(trace)) => {
            let made = mahimahi(&trace.file).and_then(|instants| Opportunities::new(instants, trace.r#loop));
            let made = made.map_err(|error| format!("mahimahi: {error}"))?;
            let epoch_ns = Some(trace.epoch_ns.unwrap_or(given.at_ns));
            Ok(Some(RateSchedule { schedule: Schedule::Opportunities(Arc::new(made)), epoch_ns }))
        }
    }
}

fn variation(given: &VariationConfig) -> Result<Variation, String> {
    let jitter = match &given.jitter {
        None => Jitter::None,
        Some(JitterConfig::UniformNs(most_ns)) => Jitter::Uniform { most_ns: *most_ns },
        Some(JitterConfig::NormalNs(deviation_ns)) => Jitter::Normal { deviation_ns: *deviation_ns },
        Some(JitterConfig::Pareto { scale_ns, shape }) => Jitter::Pareto { scale_ns: *scale_ns, shape: *shape },
        Some(JitterConfig::Samples(samples)) => Jitter::Samples(samples.as_slice().into()),
    };
    Variation::new(jitter, given.reorder, given.duplicate, given.seed).map_err(|error| format!("variation: {error}"))
}

/// The settings that one entry of `queues` asks for. Errors: name the field.
pub fn changes(given: &QueueConfig) -> Result<Changes, String> {
    let steps = given.delay_steps.as_ref().map(|steps| {
        let (starts, delays) = steps.steps.iter().copied().unzip();
        let made = DelaySteps::new(starts, delays, steps.period_ns).map_err(|error| format!("delay_steps: {error}"))?;
        Ok::<_, String>((Arc::new(made), Some(steps.epoch_ns.unwrap_or(given.at_ns))))
    });
    Ok(Changes {
        rate: given.rate_bps.map(|rate| match rate {
            RateConfig::Bps(rate) => Rate::Bps(rate),
            RateConfig::Word(Word::Unlimited) => Rate::Unlimited,
        }),
        schedule: rate_schedule(given)?,
        burst_bytes: given.burst_bytes,
        limit_bytes: given.limit_bytes,
        limit_packets: given.limit_packets,
        delay_ns: given.delay_ns,
        delay: DelayChange {
            steps: steps.transpose()?,
            variation: given.variation.as_ref().map(variation).transpose()?,
        },
        head_drop: given.head_drop,
        policer: given.policer.map(policer).transpose().map_err(|error| format!("policer: {error}"))?,
        framing: given.framing.map(framing).transpose().map_err(|error| format!("framing: {error}"))?,
        ack_filter: given.ack_filter.map(Some),
        aggregation: given.aggregation.map(aggregation).transpose().map_err(|error| format!("aggregation: {error}"))?,
        management: given.management.map(management).transpose().map_err(|error| format!("management: {error}"))?,
    })
}

fn policer(given: PolicerConfig) -> Result<Option<PolicerSettings>, String> {
    let peak = match (given.peak_rate_bps, given.peak_burst_bytes) {
        (None, None) => None,
        (Some(rate_bps), Some(burst_bytes)) => Some(BucketSettings { rate_bps, burst_bytes }),
        _ => return Err("peak_rate_bps and peak_burst_bytes: allowed are both or neither".into()),
    };
    let committed = BucketSettings { rate_bps: given.rate_bps, burst_bytes: given.burst_bytes };
    PolicerSettings::new(committed, peak).map(Some)
}

fn framing(given: FramingConfig) -> Result<Framing, String> {
    let link_layer = match given.linklayer {
        LinkLayerConfig::Ethernet => LinkLayer::Ethernet,
        LinkLayerConfig::Atm => LinkLayer::Atm,
        LinkLayerConfig::Ptm => LinkLayer::Ptm,
    };
    Framing::new(given.overhead, given.mpu, link_layer)
}

fn aggregation(given: AggregationConfig) -> Result<Option<AggregationSettings>, String> {
    AggregationSettings::new(given.packets, given.bytes, given.overhead_ns).map(Some)
}

fn management(given: ManagementConfig) -> Result<Option<Management>, String> {
    Management::new(given.index, given.period_ns, given.scheduling).map(Some)
}
