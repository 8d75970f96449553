// SPDX-License-Identifier: Apache-2.0
//! From an Ethernet frame to a decoded report with the headers of the packet it describes.

mod decoder;
pub mod encapsulation;
pub mod first;
pub mod original;
pub mod report;
mod usual;

pub use decoder::Decoder;
pub use encapsulation::{Path, Reject};
pub use original::Original;
pub use report::{Report, REPORT_BYTES};

/// A decoded report: the fixed header, and what the original packet's headers say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    pub report: Report,
    pub original: Original,
}

/// Largest sampling exponent accepted (one report in 2^20 departures).
pub const MAX_SAMPLE_SHIFT: u8 = 20;

/// Number of bottlenecks that a switch can have; the index field is wider.
pub const BOTTLENECKS: usize = 64;

/// Decodes the report in `frame`; also returns the original packet's bytes. [`Decoder`] does it faster for many.
///
/// # Errors
/// Why the frame is not a usable report.
pub fn decode(frame: &[u8], port: u16) -> Result<(Record, &[u8]), Reject> {
    decode_payload(encapsulation::payload(frame, port.into())?)
}

#[inline(always)]
fn decode_payload(payload: &[u8]) -> Result<(Record, &[u8]), Reject> {
    let (report, inner) = match payload.split_first_chunk::<REPORT_BYTES>() {
        Some((fixed, inner)) if fixed[0] != first::FIRST_VERSION => (Report::decode(fixed), inner),
        _ => first_version(payload)?,
    };
    check(&report)?;
    let original = match usual::parse(inner, report.packet_length) {
        Some(original) => original,
        None => Original::parse(inner, report.packet_length),
    };
    Ok((Record { report, original }, inner))
}

/// A report of an older capture; any that is neither that nor of this version is too short.
#[cold]
fn first_version(payload: &[u8]) -> Result<(Report, &[u8]), Reject> {
    match payload.split_first_chunk::<{ first::FIRST_BYTES }>() {
        Some((fixed, inner)) if fixed[0] == first::FIRST_VERSION => Ok((Report::decode(&first::renewed(fixed)), inner)),
        _ => Err(Reject::Short),
    }
}

/// Checks of single fields: values that no switch of this layout version can send. A flow's counters are not checked: each
/// wraps on its own, so that within a single report any difference between them is possible.
#[inline(always)]
pub fn check(report: &Report) -> Result<(), Reject> {
    let version = report.version != report::VERSION;
    let bottleneck = usize::from(report.bottleneck) >= BOTTLENECKS;
    let sample_shift = report.sample_shift > MAX_SAMPLE_SHIFT;
    if !(version | bottleneck | sample_shift) {
        return Ok(());
    }
    Err(match (version, bottleneck) {
        (true, _) => Reject::Version,
        (_, true) => Reject::Bottleneck,
        _ => Reject::SampleShift,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_of_version_1_is_decoded_as_the_same_of_version_2() {
        let report = Report {
            version: report::VERSION,
            bottleneck: 3,
            flow: 77,
            packet_length: 60,
            arrivals: 9,
            queue_delay: u64::from(u32::MAX),
            enqueue_depth: 5,
            dequeue_depth: 4,
            timestamp: 0xffff_ffff_fffe,
            epoch: 2,
            ..Report::default()
        };
        let second = report.encode();
        let first = [
            &[first::FIRST_VERSION],
            &second[1..28],
            &second[42..46],
            &second[32..40],
            &second[48..54],
            &second[46..48],
        ];
        let inner = [0xab; 60];
        let decoded =
            decode_payload(&[&first.concat(), &inner[..]].concat()).map(|(record, rest)| (record, rest.to_vec()));
        let same = decode_payload(&[&second, &inner[..]].concat()).map(|(record, rest)| (record, rest.to_vec()));
        assert_eq!(decoded, same);
        assert_eq!(decoded.map(|(record, _)| record.report), Ok(report));
        let head = first.concat();
        assert!(decode_payload(&head).is_ok());
        assert_eq!(decode_payload(&head[..47]).err(), Some(Reject::Short));
        assert_eq!(decode_payload(&second[..55]).err(), Some(Reject::Short));
    }

    #[test]
    fn a_value_that_no_switch_can_send_is_rejected_by_name() {
        let good = Report {
            version: report::VERSION,
            bottleneck: BOTTLENECKS as u8 - 1,
            sample_shift: MAX_SAMPLE_SHIFT,
            ..Report::default()
        };
        assert_eq!(check(&good), Ok(()));
        let mut bad = [good; 3];
        bad[0].version += 1;
        bad[1].bottleneck += 1;
        bad[2].sample_shift += 1;
        let reasons = [Reject::Version, Reject::Bottleneck, Reject::SampleShift];
        assert_eq!(bad.map(|report| check(&report)), reasons.map(Err));
        for drops in [0, 1 << 31, u32::MAX] {
            let departures = u32::MAX - 5;
            let report = Report { arrivals: departures.wrapping_add(drops), departures, ..good };
            assert_eq!(check(&report), Ok(()), "{drops} drops so far");
        }
    }
}
