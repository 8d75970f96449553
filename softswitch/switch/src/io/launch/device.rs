//! The device by which a guest's kernel takes frames ahead of their time, many with one system call, and without a copy of
//! their zeros (control_plane/narrows/virtual/launch.c).
// SPDX-License-Identifier: Apache-2.0
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;

use narrows_packet_sockets::check;

use super::super::coalescing::{Delivery, ZEROS};

const PATH: &str = "/dev/narrows_launch";
/// _IO('N', 0) and _IOR('N', 1, u64) of linux/ioctl.h.
const BIND: libc::Ioctl = 0x4e00;
const LOST: libc::Ioctl = 0x8008_4e01;
/// More is not written at once, but for a single frame.
const BATCH_BYTES: usize = 64 << 10;
/// The rest of a record's head.
const RESERVED: [u8; 6] = [0; 6];

/// The device, for one interface.
#[derive(Debug)]
pub struct LaunchDevice {
    file: File,
    records: Vec<u8>,
}

impl LaunchDevice {
    /// For interface `index`; `None`: the kernel has no such device.
    pub fn open(index: libc::c_int) -> io::Result<Option<Self>> {
        let file = match OpenOptions::new().write(true).open(PATH) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        // SAFETY: passes a number; the kernel reads and writes no memory of this process.
        check(unsafe { libc::ioctl(file.as_raw_fd(), BIND, libc::c_long::from(index)) })?;
        Ok(Some(LaunchDevice { file, records: Vec::with_capacity(BATCH_BYTES) }))
    }

    /// Gives frames to the kernel, each with its launch time (0: at once); returns how many at the beginning it took, at least
    /// one.
    pub fn send(&mut self, frames: &[(u64, Delivery)]) -> io::Result<usize> {
        self.records.clear();
        let mut count = 0;
        for (launch_ns, delivery) in frames {
            let before = self.records.len();
            append(&mut self.records, *launch_ns, delivery);
            if self.records.len() > BATCH_BYTES && count > 0 {
                self.records.truncate(before);
                break;
            }
            count += 1;
        }
        // The kernel takes all or nothing.
        self.file.write_all(&self.records)?;
        Ok(count)
    }

    /// Frames that the kernel took and could not send.
    pub fn lost(&self) -> u64 {
        let mut lost = 0u64;
        // SAFETY: the kernel writes 8 bytes to `lost`, which lives until the call returns.
        let answer = unsafe { libc::ioctl(self.file.as_raw_fd(), LOST, &mut lost) };
        check(answer).map_or(0, |_| lost)
    }
}

/// Appends a frame's record: launch time, length, bytes that follow, header for the kernel, and those bytes, up to a multiple of 8.
fn append(records: &mut Vec<u8>, launch_ns: u64, delivery: &Delivery) {
    let length: usize = delivery.pieces().map(|(bytes, zeros)| bytes.len() + zeros).sum();
    let headers = delivery.header.headers().filter(|headers| is_zero_behind(delivery, *headers));
    let held = match headers {
        Some(headers) => headers,
        None if delivery.rest.is_empty() => delivery.first.bytes().len(),
        None => length,
    };
    records.extend(launch_ns.to_ne_bytes());
    records.extend((length as u32).to_ne_bytes());
    records.extend((held as u32).to_ne_bytes());
    records.extend(delivery.header.bytes());
    records.extend(RESERVED);
    let start = records.len();
    for (bytes, zeros) in delivery.pieces() {
        let left = start + held - records.len();
        records.extend(&bytes[..bytes.len().min(left)]);
        records.resize((records.len() + zeros).min(start + held), 0);
    }
    records.resize(records.len().next_multiple_of(8), 0);
}

/// True if nothing but zeros is held of a delivery behind its headers.
fn is_zero_behind(delivery: &Delivery, headers: usize) -> bool {
    let mut start = headers;
    delivery.pieces().all(|(bytes, _)| {
        let payload = &bytes[std::mem::take(&mut start)..];
        ZEROS.get(..payload.len()) == Some(payload)
    })
}

#[cfg(test)]
mod tests {
    use narrows_pipeline::{Packet, PacketPool};

    use super::super::super::checksum::Partial;
    use super::super::super::vnet::VnetHeader;
    use super::*;

    const CHECKSUM: Partial = Partial { start: 34, field: 16 };

    /// A frame of `length` bytes: headers of 66 bytes, then a payload of which the first byte is `first`.
    fn packet(length: usize, first: u8) -> Box<Packet> {
        let mut packet = PacketPool::default().take_beginning(length, 192);
        let bytes = packet.bytes_mut();
        bytes.fill(0);
        bytes[..66].fill(7);
        bytes[66] = first;
        packet
    }

    fn recorded(delivery: &Delivery) -> (u32, Vec<u8>) {
        let mut records = vec![];
        append(&mut records, 5, delivery);
        let number = |at: usize| u32::from_ne_bytes(records[at..at + 4].try_into().expect("four bytes"));
        assert_eq!((records[..8].to_vec(), records.len() % 8), (5u64.to_ne_bytes().to_vec(), 0));
        assert_eq!(records[16..26], *delivery.header.bytes());
        let held = number(12) as usize;
        assert_eq!(records.len(), (32 + held).next_multiple_of(8));
        (number(8), records[32..32 + held].to_vec())
    }

    #[test]
    fn a_payload_of_zeros_is_not_copied() {
        let header = VnetHeader::checked(66, CHECKSUM);
        let alone = |first| Delivery { header, first, rest: vec![], payload: 0 };
        assert_eq!(recorded(&alone(packet(9_014, 0))), (9_014, vec![7; 66]));
        let held = packet(9_014, 1).bytes().to_vec();
        assert_eq!(recorded(&alone(packet(9_014, 1))), (9_014, held));
        let unknown = Delivery { header: VnetHeader::COMPLETE, ..alone(packet(1_514, 0)) };
        assert_eq!(recorded(&unknown).1.len(), 192);
    }

    #[test]
    fn joined_segments_are_one_frame() {
        let joined = |second| Delivery {
            header: VnetHeader::joined(false, 66, 1_448, CHECKSUM),
            first: packet(1_514, 0),
            rest: vec![packet(1_514, second)],
            payload: 66,
        };
        assert_eq!(recorded(&joined(0)), (1_514 + 1_448, vec![7; 66]));
        let (length, held) = recorded(&joined(1));
        let whole = [vec![7; 66], vec![0; 1_448], vec![1], vec![0; 1_447]].concat();
        assert_eq!((length as usize, held), (whole.len(), whole));
    }
}
