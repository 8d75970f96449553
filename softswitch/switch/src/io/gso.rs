//! Generic segmentation offload (GSO): segments that leave together go to the kernel as one frame, which it cuts into the same
//! segments again. What a system call and waking the receiver cost is then shared by all of them.
// SPDX-License-Identifier: Apache-2.0
use std::io::{self, IoSlice};
use std::iter;

use narrows_pipeline::{Packet, PacketPool};

use super::interface::takes_segments;
use super::joining::Joined;
use super::qdisc::has_queue;
use super::send::send;
use super::socket::PacketSocket;
use super::tcp::{TcpFrame, CWR};
use super::vnet::PACKET_VNET_HDR;

/// Fewer segments cost less as frames of an AF_XDP socket.
const WORTHWHILE: usize = 4;
/// More than fit into one IP packet at full size; a kernel takes no more pieces than 1,024, and drops what its receiving end has not
/// come round to, by default behind 1,000 frames.
const MOST: usize = 64;

/// Frames in a row that one can stand for without anything being lost.
#[derive(Debug, Default)]
pub struct Run {
    // Boxed: packets move between queues and pools by pointer.
    #[allow(clippy::vec_box)]
    packets: Vec<Box<Packet>>,
    joined: Option<Joined>,
    /// Of the next segment's IPv4 header: the kernel counts up.
    identification: u16,
}

impl Run {
    /// Takes a packet in that goes on where the run ends, or begins one; gives back any other.
    #[inline]
    pub fn offer(&mut self, packet: Box<Packet>) -> Result<(), Box<Packet>> {
        if !self.admits(&packet) {
            return Err(packet);
        }
        self.packets.push(packet);
        Ok(())
    }

    #[inline]
    fn admits(&mut self, packet: &Packet) -> bool {
        let (frame, length) = (packet.bytes(), packet.bytes().len());
        let Some(parts) = TcpFrame::parse(frame, length) else {
            return false;
        };
        let Some(first) = self.packets.first() else {
            // The kernel leaves CWR to the first segment only.
            self.joined = Joined::beginning(packet, parts).filter(|_| parts.flags(frame) & CWR == 0);
            self.identification = parts.identification(frame).unwrap_or(0).wrapping_add(1);
            return self.joined.is_some();
        };
        let Some(joined) = &mut self.joined else {
            return false;
        };
        // The kernel computes checksums anew: what is damaged must stay so.
        let is_next = self.packets.len() < MOST
            && parts.identification(frame).is_none_or(|number| number == self.identification)
            && joined.goes_on(first.bytes(), packet, &parts)
            && (self.packets.len() > 1 || parts.is_intact(first.bytes(), first.bytes().len()))
            && parts.is_intact(frame, length);
        if is_next {
            joined.extend(packet);
            self.identification = self.identification.wrapping_add(1);
        }
        is_next
    }

    /// True if there are no packets.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// How many packets there are, and their bytes.
    pub fn size(&self) -> (u64, u64) {
        (self.packets.len() as u64, self.packets.iter().map(|packet| packet.bytes().len() as u64).sum())
    }

    /// True if it is better sent as one frame.
    pub fn is_worthwhile(&self) -> bool {
        self.packets.len() >= WORTHWHILE
    }

    /// Ends the run: its packets, each for itself.
    pub fn packets(&mut self) -> impl Iterator<Item = Box<Packet>> + '_ {
        self.joined = None;
        self.packets.drain(..)
    }
}

/// Sends runs on one interface.
#[derive(Debug)]
pub struct GsoSender {
    socket: PacketSocket,
}

impl GsoSender {
    /// On an interface that has neither a queue, where a run would be overtaken by frames that go past it, nor TCP segmentation
    /// offload, by which the host at the other end of a veth would get what is to be cut.
    pub fn open(name: &str, index: libc::c_int) -> io::Result<Option<Self>> {
        if takes_segments(name)? || has_queue(index)? {
            return Ok(None);
        }
        let socket = PacketSocket::queued_sender(index)?;
        socket.enlarge_buffer();
        socket.set(libc::SOL_PACKET, PACKET_VNET_HDR, &1i32)?;
        Ok(Some(GsoSender { socket }))
    }

    /// Sends a run of several packets as one frame and ends it, also if the interface refuses it.
    pub fn send(&self, run: &mut Run, pool: &mut PacketPool) -> io::Result<()> {
        let Some((joined, (first, rest))) = run.joined.take().zip(run.packets.split_first_mut()) else {
            return Ok(());
        };
        let payload = joined.parts.payload;
        let header = joined.finish(first.bytes_mut());
        let mut parts = Vec::with_capacity(rest.len() + 2);
        parts.extend([header.bytes(), first.bytes()].map(IoSlice::new));
        parts.extend(rest.iter().map(|packet| IoSlice::new(&packet.bytes()[payload..])));
        let sent = send::<1>(&self.socket, iter::once((0, &parts[..])));
        run.packets.drain(..).for_each(|packet| pool.give(packet));
        sent.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::super::checksum;
    use super::super::tcp::tests::{frame, Header};
    use super::super::tcp::{ACK, ECE, FIN, PSH};
    use super::*;

    const HEADER: Header = Header { is_ipv6: false, sequence: 0, identification: 0, flags: ACK };
    const PAYLOAD: u32 = 100;

    /// The segment of this number.
    fn segment(number: u32, header: Header) -> Vec<u8> {
        let identification = header.identification.wrapping_add(number as u16);
        frame(Header { sequence: number * PAYLOAD, identification, ..header }, &[number as u8; PAYLOAD as usize])
    }

    /// How many frames of a row are in its first run.
    fn taken(frames: &[Vec<u8>]) -> usize {
        let (mut pool, mut run) = (PacketPool::default(), Run::default());
        frames.iter().take_while(|frame| run.offer(pool.packet(frame)).is_ok()).count()
    }

    #[test]
    fn segments_that_are_numbered_one_by_one_are_a_run() {
        for is_ipv6 in [false, true] {
            // The number wraps as the kernel's does.
            let header = Header { is_ipv6, identification: 0xfffe, ..HEADER };
            let frames: Vec<_> = (0..9).map(|number| segment(number, header)).collect();
            assert_eq!(taken(&frames), 9);
            let counted_twice = segment(9, Header { identification: 0xfffd, ..header });
            assert_eq!(taken(&[frames.as_slice(), &[counted_twice]].concat()), if is_ipv6 { 10 } else { 9 });
        }
    }

    #[test]
    fn what_the_kernel_would_make_anew_is_no_part_of_a_run() {
        let first: Vec<_> = (0..5).map(|number| segment(number, HEADER)).collect();
        let ends = |other: Vec<u8>| taken(&[first.as_slice(), &[other]].concat()) == 5;
        let mut damaged = segment(5, HEADER);
        damaged[90] ^= 1;
        let mut network = segment(5, HEADER);
        network[25] ^= 1;
        assert!(ends(damaged) && ends(network) && ends(segment(6, HEADER)) && !ends(segment(5, HEADER)));
        for flags in [ACK | CWR, ACK | ECE] {
            assert!(ends(segment(5, Header { flags, ..HEADER })));
        }
        // Of a run with CWR only the first segment would keep it; that one is sent for itself, as is a damaged one.
        assert_eq!(taken(&[segment(0, Header { flags: ACK | CWR, ..HEADER })]), 0);
        assert_eq!(
            taken(&(0..5).map(|number| segment(number, Header { flags: ACK | ECE, ..HEADER })).collect::<Vec<_>>()),
            5
        );
        let mut begins = first.clone();
        begins[0][90] ^= 1;
        assert_eq!(taken(&begins), 1);
        // PSH and FIN are kept by the last one only.
        for flags in [ACK | PSH, ACK | FIN] {
            let last = segment(5, Header { flags, ..HEADER });
            assert_eq!(taken(&[first.as_slice(), &[last, segment(6, HEADER)]].concat()), 6);
        }
    }

    #[test]
    fn a_run_has_an_end() {
        let frames: Vec<_> = (0..100).map(|number| segment(number, HEADER)).collect();
        assert_eq!(taken(&frames), MOST);
    }

    #[test]
    fn headers_are_those_of_all_segments() {
        let (mut pool, mut run) = (PacketPool::default(), Run::default());
        for number in 0..5 {
            run.offer(pool.packet(&segment(number, HEADER))).expect("they follow one another");
        }
        assert!(run.is_worthwhile());
        let joined = run.joined.take().expect("a run");
        let mut whole = run.packets[0].bytes().to_vec();
        let header = joined.finish(&mut whole);
        whole.extend(run.packets[1..].iter().flat_map(|packet| &packet.bytes()[66..]));
        header.checksum().map(|partial| checksum::complete(&mut whole, partial));
        let payload: Vec<u8> = (0..5u8).flat_map(|number| [number; PAYLOAD as usize]).collect();
        assert_eq!(whole, frame(HEADER, &payload));
        assert_eq!(header.tcp_segments(), Some((false, PAYLOAD as usize)));
        assert_eq!(run.packets().count(), 5);
        assert!(run.is_empty() && !run.is_worthwhile());
    }
}
