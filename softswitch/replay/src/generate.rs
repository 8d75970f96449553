//! Traffic generators: deterministic arrival times and frames for a seed.
// SPDX-License-Identifier: Apache-2.0
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::Ipv4Addr;

use narrows_pipeline::Random;
use narrows_replay_config::config::{Arrivals, GeneratorConfig};
use narrows_switch::io::MAX_FRAME;
use narrows_switch::tm::{ByteClock, MAX_RATE_BPS};

/// Ethernet, IPv4 and UDP headers.
pub const HEADERS: usize = 42;
const MIN_FRAME: u32 = 60;
const MAX_FLOWS: u32 = 1 << 24;
const FIRST_PORT: u32 = 1_024;
const SOURCE_PORTS: u32 = 64_512;
const DESTINATION_PORT: u16 = 5_001;

/// Exponential with mean 1.
fn exponential(random: &mut Random) -> f64 {
    // Uniform on (0, 1]: the logarithm is finite.
    let uniform = ((random.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
    -uniform.ln()
}

enum Pattern {
    Constant(ByteClock),
    Poisson { time_ns: u64, fraction: f64, mean_gap_ns: f64 },
    OnOff { clock: ByteClock, burst_end_ns: u64, on_ns: u64, off_ns: u64, random: bool },
    Incast { due: BinaryHeap<Reverse<(u64, u32)>>, senders: Vec<Sender> },
}

struct Sender {
    clock: ByteClock,
    left: u32,
    period_start_ns: u64,
}

/// A generator at work.
pub struct Generator {
    pattern: Pattern,
    random: Random,
    config: GeneratorConfig,
    next_flow: u32,
    first_source: u32,
    /// Headers of all frames, without source address, source port and checksum.
    headers: [u8; HEADERS],
    /// Sum of the IPv4 header's words without those.
    header_sum: u32,
}

fn address(text: Option<&String>, default: [u8; 4], field: &str) -> Result<u32, String> {
    let parsed = text.map_or(Ok(default.into()), |text| text.parse::<Ipv4Addr>());
    parsed.map(u32::from).map_err(|_| format!("{field}: {:?} is not an IPv4 address", text.map_or("", String::as_str)))
}

fn required<T>(value: Option<T>, field: &str, arrivals: &str) -> Result<T, String> {
    value.ok_or_else(|| format!("{field} is missing: {arrivals} arrivals need it"))
}

impl Generator {
    /// Checks the configuration. `seed` should differ from generator to generator.
    pub fn new(config: &GeneratorConfig, seed: u64) -> Result<Self, String> {
        let frames = MIN_FRAME..=MAX_FRAME as u32;
        if !frames.contains(&config.frame_bytes) {
            return Err(format!("frame_bytes {}: allowed are {MIN_FRAME} to {MAX_FRAME}", config.frame_bytes));
        }
        if !(1..=MAX_RATE_BPS).contains(&config.rate_bps) {
            return Err(format!("rate_bps {}: allowed are 1 to {MAX_RATE_BPS}", config.rate_bps));
        }
        if !(1..=MAX_FLOWS).contains(&config.flows) {
            return Err(format!("flows {}: allowed are 1 to {MAX_FLOWS}", config.flows));
        }
        let mut random = Random::new(seed);
        let pattern = Self::pattern(config, &mut random)?;
        let destination = address(config.dst_ip.as_ref(), [10, 128, 0, 1], "dst_ip")?;
        let headers = headers(config.frame_bytes, destination);
        let words = headers[14..34].chunks_exact(2);
        Ok(Generator {
            pattern,
            random,
            config: config.clone(),
            next_flow: 0,
            first_source: address(config.src_ip.as_ref(), [10, 0, 0, 1], "src_ip")?,
            header_sum: words.map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum(),
            headers,
        })
    }

    fn pattern(config: &GeneratorConfig, random: &mut Random) -> Result<Pattern, String> {
        let start_ns = config.start_ns;
        let clock = ByteClock::new(config.rate_bps);
        Ok(match config.arrivals {
            Arrivals::Constant => Pattern::Constant(clock),
            Arrivals::Poisson => Pattern::Poisson {
                time_ns: start_ns,
                fraction: 0.0,
                mean_gap_ns: f64::from(config.frame_bytes) * 8e9 / config.rate_bps as f64,
            },
            Arrivals::OnOff => {
                let on_ns = required(config.on_ns, "on_ns", "on_off")?;
                let off_ns = required(config.off_ns, "off_ns", "on_off")?;
                if on_ns == 0 {
                    return Err("on_ns 0: it must be at least 1".into());
                }
                Pattern::OnOff { clock, burst_end_ns: start_ns + on_ns, on_ns, off_ns, random: config.random }
            }
            Arrivals::Incast => {
                let left = required(config.burst_packets, "burst_packets", "incast")?;
                let period_ns = required(config.period_ns, "period_ns", "incast")?;
                if left == 0 || period_ns == 0 {
                    return Err("burst_packets and period_ns must be at least 1".into());
                }
                let due = (0..config.flows)
                    .map(|flow| Reverse((start_ns + random.uniform(0, config.jitter_ns).unwrap_or(0), flow)));
                let due: BinaryHeap<_> = due.collect();
                let sender = |_| Sender { clock, left, period_start_ns: start_ns };
                Pattern::Incast { due, senders: (0..config.flows).map(sender).collect() }
            }
        })
    }

    /// Length of every frame.
    pub fn frame_bytes(&self) -> usize {
        self.config.frame_bytes as usize
    }

    /// Time and flow of the next frame; `None` at the end. Times never go backwards.
    pub fn next(&mut self) -> Option<(u64, u32)> {
        let config = &self.config;
        let mut flow = self.next_flow;
        let time_ns = match &mut self.pattern {
            Pattern::Constant(clock) => clock.start(config.start_ns, config.frame_bytes),
            Pattern::Poisson { time_ns, fraction, mean_gap_ns } => {
                let gap = *fraction + exponential(&mut self.random) * *mean_gap_ns;
                *time_ns += gap as u64;
                *fraction = gap.fract();
                *time_ns
            }
            Pattern::OnOff { clock, burst_end_ns, on_ns, off_ns, random } => {
                let mut scaled = |mean: u64| match random {
                    true => (exponential(&mut self.random) * mean as f64) as u64,
                    false => mean,
                };
                while clock.finish_ns().max(config.start_ns) >= *burst_end_ns {
                    let next_burst = *burst_end_ns + scaled(*off_ns);
                    // Starts the clock anew at the burst: a packet of no length takes no time.
                    clock.start(next_burst, 0);
                    *burst_end_ns = next_burst + scaled(*on_ns).max(1);
                    if next_burst >= config.stop_ns {
                        return None;
                    }
                }
                clock.start(config.start_ns, config.frame_bytes)
            }
            Pattern::Incast { due, senders } => {
                let Reverse((time_ns, sender_flow)) = due.pop()?;
                flow = sender_flow;
                let sender = &mut senders[sender_flow as usize];
                sender.clock.start(time_ns, config.frame_bytes);
                sender.left -= 1;
                let mut next = sender.clock.finish_ns();
                if sender.left == 0 {
                    sender.left = config.burst_packets.unwrap_or(1);
                    sender.period_start_ns += config.period_ns.unwrap_or(1);
                    // A burst longer than its period delays the next one.
                    next = next.max(sender.period_start_ns + self.random.uniform(0, config.jitter_ns).unwrap_or(0));
                }
                due.push(Reverse((next, sender_flow)));
                time_ns
            }
        };
        self.next_flow = if self.next_flow + 1 >= config.flows { 0 } else { self.next_flow + 1 };
        (time_ns < config.stop_ns).then_some((time_ns, flow))
    }

    /// Writes the frame of a flow, or its beginning ([`HEADERS`] bytes at least): headers, then zeros.
    #[inline]
    pub fn write(&self, flow: u32, frame: &mut [u8]) {
        let source = self.first_source.wrapping_add(flow / SOURCE_PORTS);
        let source_port = (FIRST_PORT + flow % SOURCE_PORTS) as u16;
        let sum = self.header_sum + (source >> 16) + (source & 0xffff);
        let sum = (sum & 0xffff) + (sum >> 16);
        let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
        let (start, payload) = frame.split_at_mut(HEADERS);
        start.copy_from_slice(&self.headers);
        start[24..26].copy_from_slice(&checksum.to_be_bytes());
        start[26..30].copy_from_slice(&source.to_be_bytes());
        start[34..36].copy_from_slice(&source_port.to_be_bytes());
        payload.fill(0);
    }
}

/// Headers of a frame of this length, without what differs from flow to flow.
fn headers(frame_bytes: u32, destination: u32) -> [u8; HEADERS] {
    let mut headers = [0u8; HEADERS];
    headers[..6].copy_from_slice(&[2, 0, 0, 0, 0, 2]);
    headers[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    headers[12..16].copy_from_slice(&[0x08, 0x00, 0x45, 0]);
    headers[16..18].copy_from_slice(&((frame_bytes - 14) as u16).to_be_bytes());
    headers[20..24].copy_from_slice(&[0x40, 0, 64, 17]);
    headers[30..34].copy_from_slice(&destination.to_be_bytes());
    headers[36..38].copy_from_slice(&DESTINATION_PORT.to_be_bytes());
    headers[38..40].copy_from_slice(&((frame_bytes - 34) as u16).to_be_bytes());
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(arrivals: Arrivals) -> GeneratorConfig {
        GeneratorConfig {
            arrivals,
            rate_bps: 10_000_000_000,
            frame_bytes: 1_250,
            flows: 3,
            src_ip: None,
            dst_ip: None,
            start_ns: 5_000,
            stop_ns: 1_005_000,
            on_ns: Some(10_000),
            off_ns: Some(30_000),
            random: false,
            burst_packets: Some(4),
            period_ns: Some(100_000),
            jitter_ns: 0,
        }
    }

    fn arrivals(config: &GeneratorConfig, seed: u64) -> Vec<(u64, u32)> {
        let mut generator = Generator::new(config, seed).expect("valid");
        std::iter::from_fn(|| generator.next()).collect()
    }

    #[test]
    fn constant_is_evenly_spaced_over_all_flows() {
        let all = arrivals(&config(Arrivals::Constant), 1);
        assert_eq!(all.len(), 1_000);
        assert!(all.iter().enumerate().all(|(i, found)| *found == (5_000 + 1_000 * i as u64, i as u32 % 3)));
    }

    #[test]
    fn poisson_has_the_rate_and_the_variance_of_a_poisson_process() {
        let config = GeneratorConfig { stop_ns: 100_005_000, ..config(Arrivals::Poisson) };
        let times: Vec<u64> = arrivals(&config, 7).iter().map(|(time, _)| *time).collect();
        let gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean / 1_000.0 - 1.0).abs() < 0.01, "mean gap {mean}");
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.02, "deviation {}", variance.sqrt());
        assert_eq!(times, arrivals(&config, 7).iter().map(|(time, _)| *time).collect::<Vec<_>>());
        assert_ne!(times, arrivals(&config, 8).iter().map(|(time, _)| *time).collect::<Vec<_>>());
    }

    #[test]
    fn bursts_and_silence() {
        let all = arrivals(&config(Arrivals::OnOff), 1);
        let expected: Vec<u64> =
            (0..25).flat_map(|burst| (0..10).map(move |i| 5_000 + burst * 40_000 + i * 1_000)).collect();
        assert_eq!(all.iter().map(|(time, _)| *time).collect::<Vec<_>>(), expected);
        let random = arrivals(&GeneratorConfig { random: true, ..config(Arrivals::OnOff) }, 1);
        assert!(random.windows(2).all(|pair| pair[0].0 <= pair[1].0));
        assert!(!random.is_empty());
    }

    #[test]
    fn incast_sends_from_all_flows_at_once() {
        let all = arrivals(&config(Arrivals::Incast), 1);
        assert_eq!(all.len(), 10 * 3 * 4);
        let first: Vec<(u64, u32)> = (0..4).flat_map(|i| (0..3).map(move |flow| (5_000 + 1_000 * i, flow))).collect();
        assert_eq!(all[..12], first);
        assert_eq!(all[12], (105_000, 0));
    }

    #[test]
    fn frames_are_well_formed() {
        let config = GeneratorConfig { frame_bytes: 100, ..config(Arrivals::Constant) };
        let generator = Generator::new(&config, 1).expect("valid");
        let mut frame = [0xff; 100];
        generator.write(2, &mut frame[..60]);
        let words = frame[14..34].chunks_exact(2);
        let sum: u32 = words.map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff, "IPv4 header checksum");
        assert_eq!(frame[26..30], [10, 0, 0, 1]);
        assert_eq!(frame[34..36], [4, 2]);
        assert_eq!(frame[16..18], [0, 86]);
        assert!(frame[42..60].iter().all(|byte| *byte == 0) && frame[60] == 0xff);
    }

    #[test]
    fn wrong_settings_are_named() {
        let wrong = [
            (GeneratorConfig { frame_bytes: 59, ..config(Arrivals::Constant) }, "frame_bytes"),
            (GeneratorConfig { rate_bps: 0, ..config(Arrivals::Constant) }, "rate_bps"),
            (GeneratorConfig { flows: 0, ..config(Arrivals::Constant) }, "flows"),
            (GeneratorConfig { on_ns: None, ..config(Arrivals::OnOff) }, "on_ns"),
            (GeneratorConfig { period_ns: None, ..config(Arrivals::Incast) }, "period_ns"),
            (GeneratorConfig { src_ip: Some("x".into()), ..config(Arrivals::Constant) }, "src_ip"),
        ];
        for (config, field) in wrong {
            let error = Generator::new(&config, 1).err().expect("must be refused");
            assert!(error.contains(field), "{error}");
        }
    }
}
