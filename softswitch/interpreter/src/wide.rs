// SPDX-License-Identifier: Apache-2.0
//! Arithmetic on 128 bits.

use narrows_program::bits::wide_ones;
use narrows_program::op::{Cast, Wide};

/// What a two-operand instruction makes of its operands.
pub(crate) fn wide_op(op: Wide, a: u128, b: u128) -> u128 {
    let shift = |f: fn(u128, u32) -> u128| if b < 128 { f(a, b as u32) } else { 0 };
    match op {
        Wide::Add => a.wrapping_add(b),
        Wide::Sub => a.wrapping_sub(b),
        Wide::Mul => a.wrapping_mul(b),
        Wide::And => a & b,
        Wide::Or => a | b,
        Wide::Xor => a ^ b,
        Wide::Shl => shift(|a, b| a << b),
        Wide::ShrUnsigned => shift(|a, b| a >> b),
        Wide::ShrSigned => ((a as i128) >> b.min(127)) as u128,
        Wide::Div => wide_division(false, a, b),
        Wide::Mod => wide_division(true, a, b),
    }
}

/// Quotient or remainder; a division by 0 gives 0.
#[must_use]
pub fn wide_division(remainder: bool, a: u128, b: u128) -> u128 {
    if remainder {
        a.checked_rem(b).unwrap_or(0)
    } else {
        a.checked_div(b).unwrap_or(0)
    }
}

/// A cast to `bits` bits.
#[must_use]
pub fn wide_cast(cast: Cast, value: u128, bits: u8) -> u128 {
    let bits = u32::from(bits).clamp(1, 128);
    let signed = value as i128;
    let largest = (wide_ones(bits - 1)) as i128;
    match cast {
        Cast::Truncate => value & wide_ones(bits),
        Cast::SignExtend => ((signed << (128 - bits)) >> (128 - bits)) as u128,
        Cast::SaturateUnsigned if signed < 0 => 0,
        Cast::SaturateUnsigned | Cast::SaturateUnsignedFromUnsigned => value.min(wide_ones(bits)),
        Cast::SaturateSigned => signed.clamp(-largest - 1, largest) as u128,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn casts_follow_two_complement() {
        let minus = |v: i128| v as u128;
        assert_eq!(wide_cast(Cast::SignExtend, 257, 8), 1);
        assert_eq!(wide_cast(Cast::SignExtend, minus(-129), 8), 127);
        assert_eq!(wide_cast(Cast::SaturateUnsigned, minus(-1), 8), 0);
        assert_eq!(wide_cast(Cast::SaturateUnsigned, 256, 8), 255);
        assert_eq!(wide_cast(Cast::SaturateSigned, minus(-129), 8), minus(-128));
        assert_eq!(wide_cast(Cast::SaturateSigned, 200, 8), 127);
    }
}
