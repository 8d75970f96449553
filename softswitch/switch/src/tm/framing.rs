//! What frames take on a medium that is not Ethernet, as tc-stab(8) and tc-cake(8) count it.
// SPDX-License-Identifier: Apache-2.0

/// Bytes of the Ethernet header, which another medium may do without.
const MOST_LESS: i32 = 14;
/// What tc-cake(8) takes.
const MOST_MORE: i32 = 256;
const MOST_MPU: u32 = 256;

/// How a link layer divides what it carries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LinkLayer {
    /// Not at all.
    #[default]
    Ethernet,
    /// Into cells of 53 bytes with 48 of a frame each, the last of which is filled up (ITU-T I.361, AAL5).
    Atm,
    /// Into blocks of 64 bytes, each with a byte of its own: 64b/65b (IEEE 802.3, clause 61; VDSL2).
    Ptm,
}

/// Bytes that the link's time is spent on for a frame.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Framing {
    /// Added to each frame's bytes.
    overhead: i32,
    /// No frame has less with it.
    mpu: u32,
    link_layer: LinkLayer,
}

impl Framing {
    /// Checks settings. Errors: names the field that is out of range, and its range.
    pub fn new(overhead: i32, mpu: u32, link_layer: LinkLayer) -> Result<Self, String> {
        if !(-MOST_LESS..=MOST_MORE).contains(&overhead) {
            return Err(format!("overhead {overhead}: allowed are {} to {MOST_MORE}", -MOST_LESS));
        }
        if mpu > MOST_MPU {
            return Err(format!("mpu {mpu}: allowed are 0 to {MOST_MPU}"));
        }
        Ok(Framing { overhead, mpu, link_layer })
    }

    /// Added to each frame's bytes.
    pub fn overhead(&self) -> i32 {
        self.overhead
    }

    /// What no frame has less than.
    pub fn mpu(&self) -> u32 {
        self.mpu
    }

    /// How the link layer divides it.
    pub fn link_layer(&self) -> LinkLayer {
        self.link_layer
    }

    /// Bytes of a frame of `length` bytes on the medium.
    #[inline(always)]
    pub fn bytes(&self, length: u32) -> u32 {
        if *self == Framing::default() {
            return length;
        }
        self.framed(length)
    }

    #[cold]
    fn framed(&self, length: u32) -> u32 {
        let bytes = length.saturating_add_signed(self.overhead).max(self.mpu);
        match self.link_layer {
            LinkLayer::Ethernet => bytes,
            LinkLayer::Atm => bytes.div_ceil(48).saturating_mul(53),
            LinkLayer::Ptm => bytes.saturating_add(bytes.div_ceil(64)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_take_what_tc_says() {
        let bytes = |overhead, mpu, layer, length| Framing::new(overhead, mpu, layer).expect("in range").bytes(length);
        use LinkLayer::{Atm, Ethernet, Ptm};
        // An ACK of 40 bytes in IP by PPPoE on ATM (LLC, tc-cake's pppoe-llcsnap, 40 on top of IP): 80 bytes in 2 cells.
        assert_eq!(bytes(40 - 14, 0, Atm, 54), 106);
        // 1,492 bytes of IP in the same way: 1,532 bytes in 32 cells.
        assert_eq!(bytes(26, 0, Atm, 1_506), 32 * 53);
        // Filled exactly, and a byte more.
        assert_eq!([bytes(0, 0, Atm, 96), bytes(0, 0, Atm, 97)], [106, 159]);
        // VDSL2 with PPPoE (tc-cake's pppoe-ptm: 30 on top of IP): 1,522 bytes have 24 blocks.
        assert_eq!(bytes(16, 0, Ptm, 1_506), 1_522 + 24);
        assert_eq!([bytes(0, 0, Ptm, 64), bytes(0, 0, Ptm, 65)], [65, 67]);
        // Ethernet's preamble, checksum and gap, and its shortest frame (tc-cake's ethernet: 38, mpu 84).
        assert_eq!([bytes(24, 84, Ethernet, 54), bytes(24, 84, Ethernet, 1_514)], [84, 1_538]);
        assert_eq!(
            [bytes(-14, 0, Ethernet, 60), bytes(-14, 64, Ethernet, 60), bytes(0, 0, Ethernet, 60)],
            [46, 64, 60]
        );
    }

    #[test]
    fn what_is_wrong_is_named() {
        let wrong = |overhead, mpu| Framing::new(overhead, mpu, LinkLayer::Atm).expect_err("out of range");
        assert!(wrong(-15, 0).starts_with("overhead -15: allowed are -14 to 256"));
        assert!(wrong(257, 0).starts_with("overhead 257"));
        assert!(wrong(0, 257).starts_with("mpu 257"));
    }
}
