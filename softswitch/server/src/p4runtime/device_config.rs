//! The program in what controllers send as `p4_device_config`.
// SPDX-License-Identifier: Apache-2.0
use std::borrow::Cow;

use prost::Message;

/// `p4.tmp.P4DeviceConfig` of the reference server for BMv2, in which controllers for it still wrap the JSON; it has other
/// fields, which say nothing of the program.
#[derive(Clone, PartialEq, Message)]
struct P4DeviceConfig {
    #[prost(bytes = "vec", tag = "3")]
    device_data: Vec<u8>,
}

/// The BMv2 JSON, taken out of its wrapper if it is in one.
pub fn program(config: &[u8]) -> Cow<'_, [u8]> {
    // No JSON text begins like one of the wrapper's three fields.
    let wrapped = matches!(config, [0x08 | 0x12 | 0x1a, ..]);
    match wrapped.then(|| P4DeviceConfig::decode(config)) {
        Some(Ok(wrapper)) => Cow::Owned(wrapper.device_data),
        _ => Cow::Borrowed(config),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the controllers' protobuf writes it: `reassign`, an entry of `extras`, and the data.
    #[test]
    fn a_wrapper_is_taken_off() {
        let wrapped = b"\x08\x01\x12\x08\x0a\x06\x0a\x01k\x12\x01v\x1a\x02{}";
        assert_eq!(*program(wrapped), *b"{}");
        assert_eq!(*program(&wrapped[12..]), *b"{}");
        // Without data the JSON is missing, not another thing.
        assert_eq!(*program(b"\x08\x01"), *b"");
    }

    #[test]
    fn anything_else_is_left_as_it_is() {
        for plain in [&b"{}"[..], b"\n {}", b"\t{}", b"", b"\x1a\x05{}", b"nonsense"] {
            assert_eq!(program(plain), Cow::Borrowed(plain));
        }
    }
}
