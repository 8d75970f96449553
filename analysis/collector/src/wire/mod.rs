// SPDX-License-Identifier: Apache-2.0
//! From an Ethernet frame to a decoded report with the headers of the packet it describes.

mod decoder;
pub mod encapsulation;
pub mod original;
pub mod report;
mod usual;

pub use decoder::Decoder;
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

/// Decodes the report in `frame`; also returns the original packet's bytes. [`Decoder`] does it faster for many.
///
/// # Errors
/// Why the frame is no usable report.
pub fn decode(frame: &[u8], port: u16) -> Result<(Record, &[u8]), Reject> {
    decode_payload(encapsulation::payload(frame, port)?)
}

#[inline(always)]
fn decode_payload(payload: &[u8]) -> Result<(Record, &[u8]), Reject> {
    let Some((fixed, inner)) = payload.split_first_chunk::<REPORT_BYTES>() else {
        return Err(Reject::Short);
    };
    let report = Report::decode(fixed);
    check(&report)?;
    let original = match usual::parse(inner, report.packet_length) {
        Some(original) => original,
        None => Original::parse(inner, report.packet_length),
    };
    Ok((Record { report, original }, inner))
}

/// Checks of single fields: values that no switch of this layout version can send.
#[inline(always)]
pub fn check(report: &Report) -> Result<(), Reject> {
    // FIFO: more departures than arrivals cannot be, whatever the wrap.
    let counters = (report.arrivals.wrapping_sub(report.departures) as i32) < 0;
    let version = report.version != report::VERSION;
    let bottleneck = usize::from(report.bottleneck) >= BOTTLENECKS;
    let sample_shift = report.sample_shift > MAX_SAMPLE_SHIFT;
    if !(version | bottleneck | sample_shift | counters) {
        return Ok(());
    }
    Err(match (version, bottleneck, sample_shift) {
        (true, _, _) => Reject::Version,
        (_, true, _) => Reject::Bottleneck,
        (_, _, true) => Reject::SampleShift,
        _ => Reject::Counters,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_no_switch_can_send_is_rejected_by_name() {
        let good = Report {
            version: report::VERSION,
            bottleneck: BOTTLENECKS as u8 - 1,
            sample_shift: MAX_SAMPLE_SHIFT,
            // Both wrap; the arrivals have done so already.
            arrivals: 3,
            departures: u32::MAX,
            ..Report::default()
        };
        assert_eq!(check(&good), Ok(()));
        let mut bad = [good; 4];
        bad[0].version += 1;
        bad[1].bottleneck += 1;
        bad[2].sample_shift += 1;
        bad[3].departures = 4;
        let reasons = [
            Reject::Version,
            Reject::Bottleneck,
            Reject::SampleShift,
            Reject::Counters,
        ];
        assert_eq!(bad.map(|report| check(&report)), reasons.map(Err));
    }
}
