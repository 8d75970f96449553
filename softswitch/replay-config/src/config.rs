//! The configuration file of a replay: JSON, every field checked, every error naming its place.
// SPDX-License-Identifier: Apache-2.0
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use narrows_switch::failure::Failure;
use narrows_switch::tm::Scheduling;
use serde::Deserialize;

use crate::link_config::{MahimahiConfig, RateConfig, StepsConfig, VariationConfig};

/// A value as it is written in the file: a number, or text such as `"10.0.0.1"` or `"0x1ff"`.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum Scalar {
    /// A JSON number.
    Number(u64),
    /// A JSON boolean: 1 or 0.
    Flag(bool),
    /// Text.
    Text(String),
}

/// A replay.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// BMv2 JSON of the program; relative to the configuration file.
    pub program: PathBuf,
    /// Seed of the program's random numbers and of the generators.
    #[serde(default = "one")]
    pub seed: u64,
    /// Ports of the switch.
    pub ports: Vec<u16>,
    /// Ports whose output comes in again.
    #[serde(default)]
    pub loopbacks: Vec<u16>,
    /// Frames that all queues and delay lines together can hold.
    #[serde(default = "pool")]
    pub pool_packets: usize,
    /// Table entries, installed in this order.
    #[serde(default)]
    pub entries: Vec<EntryConfig>,
    /// Default actions.
    #[serde(default)]
    pub defaults: Vec<DefaultConfig>,
    /// Clone sessions.
    #[serde(default)]
    pub clone_sessions: Vec<SessionConfig>,
    /// Queue settings, applied at their time.
    #[serde(default)]
    pub queues: Vec<QueueConfig>,
    /// Where frames come from.
    pub inputs: Vec<InputConfig>,
    /// When the run ends, in nanoseconds; without it, when everything has left.
    pub until_ns: Option<u64>,
    /// Where frames go to; other ports are only counted.
    #[serde(default)]
    pub outputs: Vec<OutputConfig>,
}

fn one() -> u64 {
    1
}

fn pool() -> usize {
    262_144
}

/// A table entry.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EntryConfig {
    /// Fully qualified name.
    pub table: String,
    /// By field name: `5`, `"10.0.0.0/8"` (lpm), `"1 &&& 0xff"` (ternary), `"1..9"` (range); left out: matches everything.
    #[serde(default)]
    pub r#match: BTreeMap<String, Scalar>,
    /// Highest wins; needed where a field is ternary or a range.
    #[serde(default)]
    pub priority: i32,
    /// Fully qualified name.
    pub action: String,
    /// By parameter name.
    #[serde(default)]
    pub params: BTreeMap<String, Scalar>,
}

/// A table's default action.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DefaultConfig {
    /// Fully qualified name.
    pub table: String,
    /// Fully qualified name.
    pub action: String,
    /// By parameter name.
    #[serde(default)]
    pub params: BTreeMap<String, Scalar>,
}

/// A clone session.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionConfig {
    /// 1 to 32767.
    pub session: u16,
    /// One copy goes to each.
    pub ports: Vec<u16>,
    /// Queue of the copies.
    #[serde(default)]
    pub queue: u8,
    /// Bytes of the packet that a copy holds at most; 0 = all.
    #[serde(default)]
    pub length_limit: u32,
}

/// Queue settings from a time on. Fields that are left out keep their value.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueConfig {
    /// Egress port.
    pub port: u16,
    /// Priority, 0..7.
    #[serde(default)]
    pub queue: u8,
    /// When, in nanoseconds.
    #[serde(default)]
    pub at_ns: u64,
    /// Constant: bit/s, 0 = nothing passes, or `"unlimited"`.
    pub rate_bps: Option<RateConfig>,
    /// A rate that changes; until it begins the constant one holds.
    pub rate_steps: Option<StepsConfig>,
    /// Or delivery opportunities.
    pub mahimahi: Option<MahimahiConfig>,
    /// Bytes that pass at once after silence; 0 = none.
    pub burst_bytes: Option<u64>,
    /// 0 = no limit.
    pub limit_bytes: Option<u64>,
    /// 0 = no limit.
    pub limit_packets: Option<u64>,
    /// Of the whole port.
    pub delay_ns: Option<u64>,
    /// A delay of the whole port that changes; until it begins the constant one holds.
    pub delay_steps: Option<StepsConfig>,
    /// What differs from packet to packet, on the whole port.
    pub variation: Option<VariationConfig>,
    /// A full queue drops its oldest packets.
    pub head_drop: Option<bool>,
    /// A policer in front of it.
    pub policer: Option<PolicerConfig>,
    /// What frames take on the link.
    pub framing: Option<FramingConfig>,
    /// Acknowledgements make others redundant; so many of these stay.
    pub ack_filter: Option<u64>,
    /// What waits leaves in bursts.
    pub aggregation: Option<AggregationConfig>,
    /// How the program manages it.
    pub management: Option<ManagementConfig>,
}

/// Token buckets that drop what does not conform.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicerConfig {
    /// Bit/s: the committed rate.
    pub rate_bps: u64,
    /// Bytes.
    pub burst_bytes: u64,
    /// Bit/s; given with the burst of the peak rate.
    pub peak_rate_bps: Option<u64>,
    /// Bytes.
    pub peak_burst_bytes: Option<u64>,
}

/// What frames take on a medium.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FramingConfig {
    /// Bytes more, or less.
    #[serde(default)]
    pub overhead: i32,
    /// Bytes at least.
    #[serde(default)]
    pub mpu: u32,
    /// How the link layer divides them.
    #[serde(default)]
    pub linklayer: LinkLayerConfig,
}

/// A link layer, by tc's names.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LinkLayerConfig {
    /// Frames as they are.
    #[default]
    Ethernet,
    /// Cells.
    Atm,
    /// 64b/65b.
    Ptm,
}

/// Bursts of packets, with an overhead each.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AggregationConfig {
    /// At most; 0 = any number.
    #[serde(default)]
    pub packets: u64,
    /// At most; 0 = any number.
    #[serde(default)]
    pub bytes: u64,
    /// Time of the link before a burst's first byte.
    #[serde(default)]
    pub overhead_ns: u64,
}

/// How the program manages a queue.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManagementConfig {
    /// The bottleneck.
    pub index: u32,
    /// From one of the timer's frames to the next; 0: none come.
    #[serde(default)]
    pub period_ns: u64,
    /// How several queues share the link.
    #[serde(default = "fifo", with = "SchedulingConfig")]
    pub scheduling: Scheduling,
}

fn fifo() -> Scheduling {
    Scheduling::Fifo
}

/// The traffic manager's, as it is read.
#[derive(Deserialize)]
#[serde(remote = "Scheduling", rename_all = "snake_case", deny_unknown_fields)]
enum SchedulingConfig {
    Fifo,
    Coupled { classic_percent: u8, mtu: u32 },
    Fair { queues: u32, quantum: u32, batch: u32 },
}

/// A source of frames.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputConfig {
    /// Ingress port.
    pub port: u16,
    /// A capture; relative to the configuration file.
    pub pcap: Option<PathBuf>,
    /// Or a generator.
    pub generator: Option<GeneratorConfig>,
    /// Of a capture: switch time of its first frame.
    #[serde(default)]
    pub start_ns: u64,
}

/// When a generator sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// Evenly, at `rate_bps`.
    Constant,
    /// Exponential gaps, `rate_bps` on average.
    Poisson,
    /// Bursts at `rate_bps` for `on_ns`, silence for `off_ns`; both exponential with `random`.
    OnOff,
    /// Every `period_ns` each flow sends `burst_packets` at `rate_bps`, all flows at once.
    Incast,
}

/// A traffic generator. Its frames are UDP over IPv4 with a payload of zeros.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GeneratorConfig {
    /// When it sends.
    pub arrivals: Arrivals,
    /// Bits per second of Ethernet frames, without preamble, gap and FCS.
    pub rate_bps: u64,
    /// Ethernet frame without FCS, 60 to 9,234 bytes.
    pub frame_bytes: u32,
    /// Flows, each with a source port of its own, from 64,512 on with source addresses too; constant, Poisson and on/off take
    /// them in turn.
    #[serde(default = "one_flow")]
    pub flows: u32,
    /// First source address.
    pub src_ip: Option<String>,
    /// Destination address.
    pub dst_ip: Option<String>,
    /// First frame not before.
    #[serde(default)]
    pub start_ns: u64,
    /// No frame at or after.
    pub stop_ns: u64,
    /// Length of a burst (on/off).
    pub on_ns: Option<u64>,
    /// Silence between bursts (on/off).
    pub off_ns: Option<u64>,
    /// Exponential lengths of burst and silence (on/off).
    #[serde(default)]
    pub random: bool,
    /// Frames of each flow in a burst (incast).
    pub burst_packets: Option<u32>,
    /// From burst to burst (incast).
    pub period_ns: Option<u64>,
    /// Each flow starts its burst up to this much later, uniformly (incast).
    #[serde(default)]
    pub jitter_ns: u64,
}

fn one_flow() -> u32 {
    1
}

/// A capture of what leaves a port.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputConfig {
    /// Egress port.
    pub port: u16,
    /// File name in the output directory.
    pub pcap: String,
    /// Bytes of each frame that are kept; 0 = all.
    #[serde(default)]
    pub snap_bytes: usize,
}

impl Config {
    /// Reads the file. Paths in it become relative to its directory.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let place = path.display();
        let text = std::fs::read(path).map_err(|error| Failure::usage(format!("{place}: {error}")))?;
        let mut config: Config =
            serde_json::from_slice(&text).map_err(|error| Failure::usage(format!("{place}: {error}")))?;
        let base = path.parent().unwrap_or(Path::new("."));
        config.program = base.join(&config.program);
        for trace in config.queues.iter_mut().filter_map(|queue| queue.mahimahi.as_mut()) {
            trace.file = base.join(&trace.file);
        }
        for input in &mut config.inputs {
            input.pcap = input.pcap.as_ref().map(|pcap| base.join(pcap));
        }
        Ok(config)
    }
}
