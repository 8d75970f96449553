// A heavy-hitter detector: a count-min sketch (Cormode and Muthukrishnan, 2005) of two rows counts the bytes of each flow, and halves
// what it has counted with each interval that passes. A flow with more bytes than a threshold goes to the lower of two queues, and
// its packets get the code point of lower-effort traffic (CS1, RFC 3662). Routes IPv4 like a first exercise in P4.
// SPDX-License-Identifier: Apache-2.0
#include <core.p4>
#include <v1model.p4>

const bit<16> TYPE_IPV4 = 0x0800;
const bit<8> TCP = 6;
const bit<8> UDP = 17;
const bit<6> LOWER_EFFORT = 8;
// Cells of a row of the sketch.
const bit<32> CELLS = 4096;

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> ethertype;
}

header ipv4_t {
    bit<4>  version;
    bit<4>  ihl;
    bit<6>  dscp;
    bit<2>  ecn;
    bit<16> total_length;
    bit<16> identification;
    bit<3>  flags;
    bit<13> fragment_offset;
    bit<8>  ttl;
    bit<8>  protocol;
    bit<16> checksum;
    bit<32> src;
    bit<32> dst;
}

header ports_t {
    bit<16> src;
    bit<16> dst;
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t     ipv4;
    ports_t    ports;
}

struct metadata_t {}

parser HitterParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ethertype) {
            TYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.ihl, hdr.ipv4.protocol) {
            (5, TCP): parse_ports;
            (5, UDP): parse_ports;
            default: accept;
        }
    }

    state parse_ports {
        packet.extract(hdr.ports);
        transition accept;
    }
}

control HitterVerifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control HitterIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    // Bytes of the flows of each cell, halved as of the interval that it was last used in, by a CRC-16 of the flow.
    register<bit<32>>(CELLS) first_bytes;
    // The same by a CRC-32: two flows seldom share a cell of both rows.
    register<bit<32>>(CELLS) second_bytes;
    // The number of that interval, for each cell of the first row.
    register<bit<32>>(CELLS) first_interval;
    // The same for the second row.
    register<bit<32>>(CELLS) second_interval;
    // Packets of heavy hitters, to be watched.
    register<bit<32>>(1) heavy_packets;

    bit<32> threshold;
    bit<8> interval_log;
    bit<32> index;
    bit<32> first;
    bit<32> second;
    bit<32> seen_in;
    bit<32> passed;
    bit<32> heavy;

    // No route, or no hops left.
    action drop() {
        mark_to_drop(standard);
    }

    // To the next hop, which has this address.
    action forward(bit<48> next_hop, bit<9> port) {
        standard.egress_spec = port;
        hdr.ethernet.src = hdr.ethernet.dst;
        hdr.ethernet.dst = next_hop;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }

    // Where packets go, by the longest prefix of their destination.
    table routes {
        key = {
            hdr.ipv4.dst: lpm;
        }
        actions = {
            forward;
            drop;
        }
        default_action = drop();
        size = 1024;
    }

    // What a heavy hitter is: more bytes than this, halved each 2^interval_log_us microseconds.
    action detect(bit<32> threshold_bytes, bit<8> interval_log_us) {
        threshold = threshold_bytes;
        interval_log = interval_log_us;
    }

    // The ports to whose packets it applies.
    table watched_ports {
        key = {
            standard.egress_spec: exact;
        }
        actions = {
            detect;
            NoAction;
        }
        default_action = NoAction();
        size = 512;
    }

    apply {
        if (!hdr.ipv4.isValid() || hdr.ipv4.ttl <= 1) {
            drop();
            return;
        }
        routes.apply();
        threshold = 0;
        interval_log = 0;
        standard.priority = 1;
        if (hdr.ports.isValid() && watched_ports.apply().hit) {
            bit<32> interval = (bit<32>) (standard.ingress_global_timestamp >> interval_log);
            hash(index, HashAlgorithm.crc16, 32w0,
                 { hdr.ipv4.src, hdr.ipv4.dst, hdr.ipv4.protocol, hdr.ports.src, hdr.ports.dst }, CELLS);
            first_bytes.read(first, index);
            first_interval.read(seen_in, index);
            passed = interval - seen_in;
            first = passed > 31 ? 0 : first >> (bit<8>) passed;
            first = first + standard.packet_length;
            first_bytes.write(index, first);
            first_interval.write(index, interval);

            hash(index, HashAlgorithm.crc32, 32w0,
                 { hdr.ipv4.src, hdr.ipv4.dst, hdr.ipv4.protocol, hdr.ports.src, hdr.ports.dst }, CELLS);
            second_bytes.read(second, index);
            second_interval.read(seen_in, index);
            passed = interval - seen_in;
            second = passed > 31 ? 0 : second >> (bit<8>) passed;
            second = second + standard.packet_length;
            second_bytes.write(index, second);
            second_interval.write(index, interval);

            // The sketch never says less than there was: the lesser of two is closer.
            if (first > threshold && second > threshold) {
                standard.priority = 0;
                hdr.ipv4.dscp = LOWER_EFFORT;
                heavy_packets.read(heavy, 0);
                heavy_packets.write(0, heavy + 1);
            }
        }
    }
}

control HitterEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply { }
}

control HitterComputeChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid() && hdr.ipv4.ihl == 5,
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp, hdr.ipv4.ecn, hdr.ipv4.total_length, hdr.ipv4.identification,
              hdr.ipv4.flags, hdr.ipv4.fragment_offset, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control HitterDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(HitterParser(), HitterVerifyChecksum(), HitterIngress(), HitterEgress(), HitterComputeChecksum(),
         HitterDeparser()) main;
