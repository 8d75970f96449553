//! Bit strings of P4Runtime.
// SPDX-License-Identifier: Apache-2.0
use super::error::UpdateError;

/// The number that a byte string encodes, checked against the width of what it is for.
///
/// The specification wants the value checked, not the length of the string: leading zero bytes are accepted.
/// Errors: INVALID_ARGUMENT for an empty string, OUT_OF_RANGE for a value that needs more bits.
pub fn decode(bytes: &[u8], width: u32, what: &str) -> Result<u128, UpdateError> {
    let words = decode_words(bytes, width.min(128), what)?;
    Ok(words.iter().rev().fold(0, |value, word| value << 64 | u128::from(*word)))
}

/// The same of any width, as words of 64 bits, the lowest first: as many as the value needs.
pub fn decode_words(bytes: &[u8], width: u32, what: &str) -> Result<Vec<u64>, UpdateError> {
    if bytes.is_empty() {
        return Err(UpdateError::invalid(format!("{what}: an empty byte string is not a value")));
    }
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    let digits = &bytes[zeros..];
    let bits = 8 * digits.len() as u32 - digits.first().map_or(0, |byte| byte.leading_zeros());
    if bits > width {
        return Err(UpdateError::out_of_range(format!("{what}: the value does not fit in {width} bits")));
    }
    let word = |chunk: &[u8]| chunk.iter().fold(0u64, |word, byte| word << 8 | u64::from(*byte));
    Ok(digits.rchunks(8).map(word).collect())
}

/// Canonical byte string: the shortest that encodes the value, one zero byte for 0.
pub fn encode(value: u128) -> Vec<u8> {
    let skip = (value.leading_zeros() / 8).min(15) as usize;
    value.to_be_bytes()[skip..].to_vec()
}

/// The same of words, the lowest first.
pub fn encode_words(words: &[u64]) -> Vec<u8> {
    let bytes: Vec<u8> = words.iter().rev().flat_map(|word| word.to_be_bytes()).collect();
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    match &bytes[zeros..] {
        [] => vec![0],
        digits => digits.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tonic::Code;

    proptest! {
        #[test]
        fn round_trip_is_canonical(value: u128, padding in 0usize..4) {
            let canonical = encode(value);
            prop_assert!(canonical.len() == 1 || canonical[0] != 0);
            let mut padded = vec![0; padding];
            padded.extend(&canonical);
            prop_assert_eq!(decode(&padded, 128, "field"), Ok(value));
            let words = decode_words(&padded, 128, "field").expect("as wide");
            prop_assert_eq!(encode_words(&words), canonical);
        }
    }

    #[test]
    fn width_is_checked_in_bits() {
        assert_eq!(decode(&[0x01, 0xff], 9, "port"), Ok(511));
        assert_eq!(decode(&[0x02, 0x00], 9, "port").expect_err("10 bits").code, Code::OutOfRange);
        assert_eq!(decode(&[1; 17], 128, "x").expect_err("17 bytes").code, Code::OutOfRange);
        assert_eq!(decode(&[], 9, "port").expect_err("empty").code, Code::InvalidArgument);
        assert_eq!(encode(0), vec![0]);
    }
}
