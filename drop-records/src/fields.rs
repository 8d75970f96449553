// SPDX-License-Identifier: Apache-2.0
//! The record of a packet that departed: what chosen fields of the program's metadata had then.
//!
//! The layout of a report is that of our own program, which knows no fields of another one's: they have a frame of their own, as
//! drops have, right behind the report of the packet.

use super::{ETHERNET_BYTES, ETHERTYPE};

/// Told apart from the version of a drop record.
const KIND: u8 = 0x80;
const VALUES_AT: usize = ETHERNET_BYTES + 14;

/// Values of chosen fields of a packet that was reported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldRecord {
    /// Those of the packet's report.
    pub bottleneck: u8,
    pub sequence: u32,
    /// When it left its queue, in ns of the switch's clock (48 bits).
    pub timestamp: u64,
    /// In the order in which the fields were chosen.
    pub values: Vec<u64>,
}

impl FieldRecord {
    /// Writes the record as a frame in place of what `frame` has.
    pub fn encode(&self, frame: &mut Vec<u8>) {
        frame.clear();
        frame.resize(ETHERNET_BYTES - ETHERTYPE.len(), 0);
        frame.extend_from_slice(&ETHERTYPE);
        frame.extend_from_slice(&[KIND, self.bottleneck]);
        frame.extend_from_slice(&self.sequence.to_be_bytes());
        frame.extend_from_slice(&self.timestamp.to_be_bytes());
        self.values.iter().for_each(|value| frame.extend_from_slice(&value.to_be_bytes()));
    }

    /// The record in a frame; `None` if there is none.
    pub fn decode(frame: &[u8]) -> Option<Self> {
        let values = frame.get(VALUES_AT..)?;
        if frame[ETHERNET_BYTES - 2..ETHERNET_BYTES] != ETHERTYPE
            || frame[ETHERNET_BYTES] != KIND
            || values.len() % 8 > 0
        {
            return None;
        }
        let number = |bytes: &[u8]| bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
        Some(FieldRecord {
            bottleneck: frame[ETHERNET_BYTES + 1],
            sequence: number(&frame[ETHERNET_BYTES + 2..ETHERNET_BYTES + 6]) as u32,
            timestamp: number(&frame[ETHERNET_BYTES + 6..VALUES_AT]),
            values: values.chunks_exact(8).map(number).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DropRecord;

    #[test]
    fn a_record_is_read_as_it_was_written_and_is_no_drop() {
        let mut frame = Vec::new();
        for count in 0..5 {
            let values = (0..count).map(|value| u64::MAX - value).collect();
            let record = FieldRecord { bottleneck: 3, sequence: 0x0405_0607, timestamp: 0x0809_0a0b_0c0d, values };
            record.encode(&mut frame);
            assert_eq!(FieldRecord::decode(&frame), Some(record));
            assert_eq!(DropRecord::decode(&frame), None);
            assert_eq!(FieldRecord::decode(&frame[..frame.len() - 1]), None);
        }
        assert_eq!(FieldRecord::decode(&DropRecord::default().encode()), None);
        for at in [12, 13, 14] {
            let mut other = frame.clone();
            other[at] ^= 1;
            assert_eq!(FieldRecord::decode(&other), None, "byte {at}");
        }
    }
}
