// SPDX-License-Identifier: Apache-2.0
//! Hand-made packets: options, tags, extension headers, fragments and contradictions.

use super::*;

const ADDRESSES: usize = 12;

fn ethernet(tags: &[u16], ethertype: u16) -> Vec<u8> {
    let mut bytes = vec![0xaa; ADDRESSES];
    for tag in tags {
        bytes.extend(tag.to_be_bytes());
        bytes.extend([0x20, 0x64]);
    }
    bytes.extend(ethertype.to_be_bytes());
    bytes
}

fn ipv4(options: usize, total: u16, fragment: u16, protocol: u8) -> Vec<u8> {
    let mut bytes = vec![0x45 + (options / 4) as u8, 0x03];
    bytes.extend(total.to_be_bytes());
    bytes.extend([0, 1]);
    bytes.extend(fragment.to_be_bytes());
    bytes.extend([64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    bytes.extend(vec![1; options]);
    bytes
}

fn ipv6(payload: u16, next: u8) -> Vec<u8> {
    let mut bytes = vec![0x60, 0x10, 0, 0];
    bytes.extend(payload.to_be_bytes());
    bytes.extend([next, 64]);
    bytes.extend([0xfd, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    bytes.extend([0xfd, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    bytes
}

fn tcp(options: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x13, 0x88, 0x14, 0x51];
    bytes.extend(0x0102_0304_u32.to_be_bytes());
    bytes.extend(0x0506_0708_u32.to_be_bytes());
    bytes.extend([(5 + options.len() as u8 / 4) << 4 | 1, 0x18, 0xff, 0xff, 0, 0, 0, 0]);
    bytes.extend(options);
    bytes
}

const TIMESTAMPS: [u8; 12] = [1, 1, 8, 10, 0, 0, 0, 9, 0, 0, 0, 8];

#[test]
fn ipv4_with_options_and_two_tags() {
    let bytes = [ethernet(&[0x88a8, 0x8100], 0x0800), ipv4(8, 28 + 32 + 500, 0, 6), tcp(&TIMESTAMPS)].concat();
    let original = Original::parse(&bytes, 22 + 560);
    let expected = Original {
        tcp_seq: 0x0102_0304,
        tcp_ack: 0x0506_0708,
        tcp_tsval: 9,
        tcp_tsecr: 8,
        tcp_flags: 0x118,
        payload_length: 500,
        ip_version: 4,
        ecn: 3,
        protocol: 6,
        malformed: false,
    };
    assert_eq!(original, expected);
    let tuple = five_tuple(&bytes).map(|t| (t.src.to_string(), t.dst.to_string(), t.src_port, t.dst_port));
    assert_eq!(tuple, Some(("10.0.0.1".into(), "10.0.0.2".into(), 5000, 5201)));
}

#[test]
fn timestamps_are_found_behind_other_options_and_not_when_cut_off() {
    let sack = [1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 2];
    let with =
        |options: &[u8]| [ethernet(&[], 0x0800), ipv4(0, 20 + 20 + options.len() as u16, 0, 6), tcp(options)].concat();
    let both = with(&[&sack[..], &TIMESTAMPS].concat());
    let original = Original::parse(&both, both.len() as u16);
    assert_eq!((original.tcp_tsval, original.tcp_tsecr, original.payload_length), (9, 8, 0));
    let cut = Original::parse(&both[..both.len() - 1], both.len() as u16);
    assert_eq!((cut.tcp_tsval, cut.tcp_seq, cut.malformed), (0, 0x0102_0304, false));
    let endless = with(&[5, 0, 0, 0]);
    assert_eq!(Original::parse(&endless, endless.len() as u16).tcp_tsval, 0);
}

#[test]
fn ipv6_extension_headers_are_followed() {
    let hop_by_hop = [43, 0, 1, 4, 0, 0, 0, 0];
    let routing = [60, 0, 0, 0, 0, 0, 0, 0];
    let destination = [51, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let authentication = [6, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let chain = [&hop_by_hop[..], &routing, &destination, &authentication].concat();
    let payload = chain.len() as u16 + 32 + 1000;
    let bytes = [ethernet(&[0x8100], 0x86dd), ipv6(payload, 0), chain, tcp(&TIMESTAMPS)].concat();
    let original = Original::parse(&bytes, 18 + 40 + payload);
    assert_eq!((original.ip_version, original.protocol, original.payload_length), (6, 6, 1000));
    assert_eq!((original.tcp_tsval, original.ecn, original.malformed), (9, 1, false));
    assert_eq!(five_tuple(&bytes).map(|t| (t.src.to_string(), t.dst_port)), Some(("fd01::1".into(), 5201)));
}

#[test]
fn later_fragments_have_no_ports() {
    let bytes = [ethernet(&[], 0x0800), ipv4(0, 120, 0x0010, 6), vec![0x55; 100]].concat();
    let original = Original::parse(&bytes, 134);
    assert_eq!((original.tcp_seq, original.tcp_flags, original.payload_length), (0, 0, 100));
    assert_eq!(five_tuple(&bytes).map(|t| (t.src_port, t.dst_port)), Some((0, 0)));
    let fragment = [6, 0, 0, 0x08, 0, 0, 0, 1];
    let bytes = [ethernet(&[], 0x86dd), ipv6(8 + 64, 44), fragment.to_vec(), vec![0x55; 64]].concat();
    let original = Original::parse(&bytes, 14 + 40 + 72);
    assert_eq!((original.protocol, original.tcp_seq, original.payload_length), (6, 0, 64));
}

#[test]
fn udp_and_others() {
    let udp = [ethernet(&[], 0x0800), ipv4(0, 28 + 1200, 0, 17), vec![0; 8]].concat();
    assert_eq!(Original::parse(&udp, 14 + 1228).payload_length, 1200);
    // After SCTP's common header: a data chunk's header of 16 bytes and a message of 1,000 (RFC 9260, 3.3.1).
    let sctp = [ethernet(&[], 0x0800), ipv4(0, 32 + 1016, 0, 132), vec![0; 28]].concat();
    assert_eq!(Original::parse(&sctp, 14 + 1048).payload_length, 1016);
    // UDP-Lite's header is as long as UDP's (RFC 3828, 3.1); DCCP's contains its length, here six words (RFC 4340, 5.1).
    let udp_lite = [ethernet(&[], 0x0800), ipv4(0, 28 + 1000, 0, 136), vec![0; 8]].concat();
    assert_eq!(Original::parse(&udp_lite, 14 + 1028).payload_length, 1000);
    let dccp = [ethernet(&[], 0x0800), ipv4(0, 44 + 1000, 0, 33), vec![0, 0, 0, 0, 6], vec![0; 19]].concat();
    assert_eq!(Original::parse(&dccp, 14 + 1044).payload_length, 1000);
    // Of any other protocol everything is payload.
    let icmp = [ethernet(&[], 0x0800), ipv4(0, 84, 0, 1), vec![8, 0, 1, 2]].concat();
    assert_eq!((Original::parse(&icmp, 98).protocol, Original::parse(&icmp, 98).payload_length), (1, 64));
    assert_eq!(five_tuple(&icmp).map(|t| (t.src_port, t.dst_port)), Some((0, 0)));
    let arp = [ethernet(&[], 0x0806), vec![0; 28]].concat();
    assert_eq!(Original::parse(&arp, 42), Original::default());
    assert_eq!(five_tuple(&arp), None);
}

#[test]
fn a_length_beyond_the_frame_is_malformed_and_limited() {
    let bytes = [ethernet(&[], 0x0800), ipv4(0, 5000, 0, 6), tcp(&TIMESTAMPS)].concat();
    let original = Original::parse(&bytes, 1014);
    assert_eq!((original.malformed, original.payload_length), (true, 1014 - 14 - 20 - 32));
    let padded = Original::parse(&[ethernet(&[], 0x0800), ipv4(0, 40, 0, 6), tcp(&[])].concat(), 60);
    assert_eq!((padded.malformed, padded.payload_length), (false, 0));
}
