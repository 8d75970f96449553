// SPDX-License-Identifier: Apache-2.0
//! From an Ethernet frame to a decoded report with the headers of the packet it describes.

pub mod encapsulation;
pub mod original;
pub mod report;
mod usual;

pub use encapsulation::Reject;
pub use original::Original;
pub use report::{Report, REPORT_BYTES};

/// One decoded report: the fixed header and what the original packet's headers say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    pub report: Report,
    pub original: Original,
}

/// Largest sampling exponent accepted (one report in 2^20 departures).
pub const MAX_SAMPLE_SHIFT: u8 = 20;

/// Number of bottlenecks a switch can have; the index field is wider than that.
pub const BOTTLENECKS: usize = 64;

/// Decodes the report in `frame`; also returns the original packet's bytes, which [`crate::flow_keys`] reads.
///
/// # Errors
/// Why the frame is no usable report.
#[inline(always)]
pub fn decode(frame: &[u8], port: u16) -> Result<(Record, &[u8]), Reject> {
    match usual::decode(frame, port) {
        Some(found) => Ok(found),
        None => decode_any(frame, port),
    }
}

/// Decodes a report of any form.
///
/// # Errors
/// As [`decode`].
#[inline]
pub fn decode_any(frame: &[u8], port: u16) -> Result<(Record, &[u8]), Reject> {
    let payload = encapsulation::payload(frame, port)?;
    let Some((fixed, inner)) = payload.split_first_chunk::<REPORT_BYTES>() else {
        return Err(Reject::Short);
    };
    let report = Report::decode(fixed);
    check(&report)?;
    let original = Original::parse(inner, report.packet_length);
    Ok((Record { report, original }, inner))
}

/// Checks of single fields: values that no switch of this layout version can send.
#[inline]
pub fn check(report: &Report) -> Result<(), Reject> {
    if report.version != report::VERSION {
        return Err(Reject::Version);
    }
    if usize::from(report.bottleneck) >= BOTTLENECKS {
        return Err(Reject::Bottleneck);
    }
    if report.sample_shift > MAX_SAMPLE_SHIFT {
        return Err(Reject::SampleShift);
    }
    // FIFO: more departures than arrivals cannot be, whatever the wrap.
    if (report.arrivals.wrapping_sub(report.departures) as i32) < 0 {
        return Err(Reject::Counters);
    }
    Ok(())
}
