//! What a kernel leaves to a network card, in a header in front of each frame of a packet socket (struct virtio_net_hdr).
// SPDX-License-Identifier: Apache-2.0
use super::checksum::Partial;

// linux/if_packet.h and linux/virtio_net.h; absent from the libc crate.
/// Socket option: frames have such a header.
pub const PACKET_VNET_HDR: libc::c_int = 15;
const BYTES: usize = 10;
const NEEDS_CSUM: u8 = 1;
const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;

/// The header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VnetHeader([u8; BYTES]);

impl VnetHeader {
    /// Length in bytes.
    pub const BYTES: usize = BYTES;
    /// Nothing is left to do.
    pub const COMPLETE: Self = VnetHeader([0; BYTES]);

    /// Of a frame with `headers` bytes in front of the payload of a TCP segment whose checksum was right: in its place is the
    /// sum of the pseudo-header.
    pub fn checked(headers: usize, checksum: Partial) -> Self {
        Self::announced(GSO_NONE, headers, 0, checksum)
    }

    /// The same of several TCP segments, all but the last one of `segment` bytes.
    pub fn joined(is_ipv6: bool, headers: usize, segment: usize, checksum: Partial) -> Self {
        Self::announced(if is_ipv6 { GSO_TCPV6 } else { GSO_TCPV4 }, headers, segment, checksum)
    }

    fn announced(kind: u8, headers: usize, segment: usize, checksum: Partial) -> Self {
        let mut header = [NEEDS_CSUM, kind, 0, 0, 0, 0, 0, 0, 0, 0];
        let numbers = [headers, segment, checksum.start, checksum.field];
        for (field, number) in header[2..].chunks_exact_mut(2).zip(numbers) {
            field.copy_from_slice(&(number as u16).to_ne_bytes());
        }
        VnetHeader(header)
    }

    /// As it lies in front of a frame.
    pub fn bytes(&self) -> &[u8; BYTES] {
        &self.0
    }

    /// Bytes in front of the payload, where something is left to do.
    pub fn headers(&self) -> Option<usize> {
        (self.0[0] & NEEDS_CSUM != 0).then(|| self.number(2))
    }

    fn number(&self, at: usize) -> usize {
        usize::from(u16::from_ne_bytes([self.0[at], self.0[at + 1]]))
    }

    /// The checksum to be completed, with offsets in the frame.
    pub fn checksum(&self) -> Option<Partial> {
        (self.0[0] & NEEDS_CSUM != 0).then(|| Partial { start: self.number(6), field: self.number(8) })
    }

    /// Of several TCP segments: whether they are in IPv6, and the payload of each but the last one. `None` also if CWR is set in
    /// them: by RFC 3168 that is the first segment's only, with Accurate ECN (the same bit of this header) it is all segments'.
    pub fn tcp_segments(&self) -> Option<(bool, usize)> {
        let size = self.number(4);
        match self.0[1] {
            GSO_TCPV4 => Some((false, size)),
            GSO_TCPV6 => Some((true, size)),
            _ => None,
        }
    }

    /// True if the frame is several packets.
    pub fn is_several(&self) -> bool {
        self.0[1] != GSO_NONE
    }
}

impl From<[u8; BYTES]> for VnetHeader {
    fn from(bytes: [u8; BYTES]) -> Self {
        VnetHeader(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_read() {
        let checksum = Partial { start: 34, field: 16 };
        let header = VnetHeader::joined(false, 66, 1448, checksum);
        assert_eq!((header.checksum(), header.is_several()), (Some(checksum), true));
        assert_eq!(header.tcp_segments(), Some((false, 1448)));
        // flags, gso_type, hdr_len, gso_size, csum_start, csum_offset (linux/virtio_net.h).
        let numbers = header.bytes()[2..].chunks_exact(2).map(|field| u16::from_ne_bytes([field[0], field[1]]));
        assert_eq!(numbers.collect::<Vec<_>>(), [66, 1448, 34, 16]);
        assert_eq!((header.bytes()[0], header.bytes()[1]), (1, 1));
        assert_eq!(VnetHeader::joined(true, 86, 1428, checksum).bytes()[1], 4);
        let checked = VnetHeader::checked(66, checksum);
        assert_eq!((checked.checksum(), checked.is_several()), (Some(checksum), false));
        assert_eq!((checked.headers(), VnetHeader::COMPLETE.headers()), (Some(66), None));
        assert_eq!(checked.tcp_segments(), None);
        // With VIRTIO_NET_HDR_GSO_ECN.
        let mut with_cwr = header.0;
        with_cwr[1] |= 0x80;
        assert_eq!((VnetHeader(with_cwr).is_several(), VnetHeader(with_cwr).tcp_segments()), (true, None));
        assert_eq!((VnetHeader::COMPLETE.checksum(), VnetHeader::COMPLETE.is_several()), (None, false));
    }
}
