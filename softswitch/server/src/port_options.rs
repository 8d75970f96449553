//! Port options of the command line: `PORT@...`.
// SPDX-License-Identifier: Apache-2.0
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use narrows_switch::tm::{MAX_RATE_BPS, PORTS};

/// A frame's time at a slow bottleneck is what jitter is by default: 72 s for 9,018 bytes at 1 kbit/s.
const MAX_JITTER_NS: u64 = 100_000_000_000;

/// The number before the first `@`, and the rest.
fn at_port(text: &str) -> Option<(u16, &str)> {
    let (number, values) = text.split_once('@')?;
    let number = number.parse().ok().filter(|number| usize::from(*number) < PORTS)?;
    Some((number, values))
}

/// A port number and its interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortSpec {
    /// 0 to 510: the number above is not that of a port.
    pub number: u16,
    /// Name in the network namespace of the switch.
    pub interface: String,
}

impl FromStr for PortSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || format!("expected NUMBER@INTERFACE with a number from 0 to {}", PORTS - 1);
        let (number, interface) = at_port(text).ok_or_else(expected)?;
        if interface.is_empty() || interface.len() >= libc::IFNAMSIZ {
            return Err(format!("an interface name has 1 to {} characters", libc::IFNAMSIZ - 1));
        }
        Ok(PortSpec { number, interface: interface.to_owned() })
    }
}

/// A port number and its host's link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccessRate {
    /// Of the port.
    pub number: u16,
    /// Rate of the link.
    pub rate_bps: u64,
    /// The longest that the host takes for a frame before it is on the link.
    pub jitter_ns: u64,
}

impl FromStr for AccessRate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = || {
            let (number, values) = at_port(text)?;
            let (rate, jitter) = values.split_once(',').unwrap_or((values, "0"));
            let rate_bps = rate.parse().ok().filter(|rate| (1..=MAX_RATE_BPS).contains(rate))?;
            let jitter_ns = jitter.parse().ok().filter(|jitter| *jitter <= MAX_JITTER_NS)?;
            Some(AccessRate { number, rate_bps, jitter_ns })
        };
        parse().ok_or_else(|| {
            format!("expected NUMBER@RATE or NUMBER@RATE,JITTER, from 1 to {MAX_RATE_BPS} bit/s and up to {MAX_JITTER_NS} ns")
        })
    }
}

/// A port number and the interrupt moderation of its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortModeration {
    /// Of the port.
    pub number: u16,
    /// How long frames wait.
    pub wait: Duration,
    /// How many of them, at most.
    pub frames: usize,
}

impl FromStr for PortModeration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = || {
            let (number, values) = at_port(text)?;
            let (usecs, frames) =
                values.split_once(',').map_or((values, None), |(usecs, frames)| (usecs, Some(frames)));
            let usecs = usecs.parse().ok().filter(|usecs| (1..=1_000_000).contains(usecs))?;
            let frames = match frames {
                None => usize::MAX,
                Some(frames) => frames.parse().ok().filter(|frames| *frames > 0)?,
            };
            Some(PortModeration { number, wait: Duration::from_micros(usecs), frames })
        };
        parse().ok_or_else(|| {
            "expected NUMBER@USECS or NUMBER@USECS,FRAMES with USECS up to 1000000, both 1 or more".to_owned()
        })
    }
}

/// A port number and the pipe that what leaves by it goes into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortPipe {
    /// Of the port.
    pub number: u16,
    /// Path of the pipe.
    pub pipe: PathBuf,
}

impl FromStr for PortPipe {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (number, pipe) =
            at_port(text).filter(|(_, pipe)| !pipe.is_empty()).ok_or_else(|| "expected NUMBER@PIPE".to_owned())?;
        Ok(PortPipe { number, pipe: pipe.into() })
    }
}

/// Two ports that a cable in the switch connects: what leaves by one comes in by the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cable(pub u16, pub u16);

impl FromStr for Cable {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || format!("expected NUMBER@NUMBER, two numbers from 0 to {}", PORTS - 1);
        let (one, other) = at_port(text).ok_or_else(expected)?;
        let other = other.parse().ok().filter(|other| usize::from(*other) < PORTS && *other != one);
        Ok(Cable(one, other.ok_or_else(expected)?))
    }
}

/// A further device and its ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DevicePorts {
    /// In P4Runtime.
    pub id: u64,
    /// One or more.
    pub ports: Vec<u16>,
}

impl FromStr for DevicePorts {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = || {
            let (id, ports) = text.split_once('@')?;
            let ports = ports.split(',').map(|port| port.parse().ok().filter(|port| usize::from(*port) < PORTS));
            Some(DevicePorts { id: id.parse().ok()?, ports: ports.collect::<Option<_>>()? })
        };
        parse().ok_or_else(|| format!("expected ID@PORT[,PORT...] with ports from 0 to {}", PORTS - 1))
    }
}

/// A field of the metadata of a device's program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchedField {
    /// Id of the device; `None`: the first one.
    pub device: Option<u64>,
    /// As in the compiled program.
    pub field: String,
}

impl FromStr for WatchedField {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((id, field)) = text.split_once('@') else {
            return Ok(WatchedField { device: None, field: text.to_owned() });
        };
        let device = id.parse().map_err(|_| "expected HEADER.FIELD or ID@HEADER.FIELD".to_owned())?;
        Ok(WatchedField { device: Some(device), field: field.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_syntax() {
        assert_eq!("2@5,6".parse(), Ok(DevicePorts { id: 2, ports: vec![5, 6] }));
        for wrong in ["", "2", "2@", "@5", "2@5,", "2@511", "x@5", "-2@5"] {
            assert!(wrong.parse::<DevicePorts>().is_err(), "{wrong}");
        }
        let field = "scalars.x".to_owned();
        assert_eq!("scalars.x".parse(), Ok(WatchedField { device: None, field: field.clone() }));
        assert_eq!("2@scalars.x".parse(), Ok(WatchedField { device: Some(2), field }));
        assert!("x@scalars.x".parse::<WatchedField>().is_err());
    }

    #[test]
    fn cable_syntax() {
        assert_eq!("3@510".parse(), Ok(Cable(3, 510)));
        for wrong in ["", "3", "3@", "@3", "3@3", "3@511", "3@x"] {
            assert!(wrong.parse::<Cable>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn moderation_syntax() {
        let expected =
            |number, usecs, frames| Ok(PortModeration { number, wait: Duration::from_micros(usecs), frames });
        assert_eq!("3@50".parse(), expected(3, 50, usize::MAX));
        assert_eq!("3@8,128".parse(), expected(3, 8, 128));
        for wrong in ["", "3", "3@", "3@0", "3@1000001", "3@8,", "3@8,0", "3@,8", "x@8", "3@-1"] {
            assert!(wrong.parse::<PortModeration>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn port_syntax() {
        let spec = PortSpec { number: 510, interface: "veth0".into() };
        assert_eq!("510@veth0".parse(), Ok(spec));
        for wrong in
            ["", "1", "@veth0", "511@veth0", "512@veth0", "-1@veth0", "1@", "1@an-interface-name-too-long", "x@veth0"]
        {
            assert!(wrong.parse::<PortSpec>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn access_rate_syntax() {
        assert_eq!("3@1000".parse(), Ok(AccessRate { number: 3, rate_bps: 1_000, jitter_ns: 0 }));
        assert_eq!("3@1000,5".parse(), Ok(AccessRate { number: 3, rate_bps: 1_000, jitter_ns: 5 }));
        // 9,018 bytes at 1 kbit/s.
        let slow = AccessRate { number: 3, rate_bps: 4_000, jitter_ns: 72_144_000_000 };
        assert_eq!("3@4000,72144000000".parse(), Ok(slow));
        for wrong in ["", "3", "3@", "3@0", "512@1", "3@1000000000000000", "3@1,", "3@1,100000000001", "3@-1", "@1"] {
            assert!(wrong.parse::<AccessRate>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn pipe_syntax() {
        assert_eq!("3@/a@b".parse(), Ok(PortPipe { number: 3, pipe: "/a@b".into() }));
        for wrong in ["", "3", "3@", "@/a", "x@/a"] {
            assert!(wrong.parse::<PortPipe>().is_err(), "{wrong}");
        }
    }
}
