// Multi-hop inspection of queues: each queue that an inspected datagram passes adds a record to it, with the number of the hop, the
// packets that waited behind it as it left, and how long it had waited. Which queues it passes is in a table. Routes IPv4 like a
// first exercise in P4.
// SPDX-License-Identifier: Apache-2.0
#include <core.p4>
#include <v1model.p4>

const bit<16> TYPE_IPV4 = 0x0800;
const bit<8> UDP = 17;
// The UDP port of the datagrams that are inspected.
const bit<16> INSPECTED = 6100;
// Records that a datagram can have.
#define MOST_HOPS 4
// Bytes of a record.
const bit<16> GROWTH = 10;

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> ethertype;
}

header ipv4_t {
    bit<4>  version;
    bit<4>  ihl;
    bit<8>  tos;
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

header udp_t {
    bit<16> src;
    bit<16> dst;
    bit<16> length;
    bit<16> checksum;
}

// What an inspected datagram begins with: how many records follow.
header inspection_t {
    bit<8> hops;
}

// What a hop has seen; the last one comes first.
header record_t {
    bit<16> hop;
    bit<32> depth;
    bit<32> waited_us;
}

struct headers_t {
    ethernet_t          ethernet;
    ipv4_t              ipv4;
    udp_t               udp;
    inspection_t        inspection;
    record_t[MOST_HOPS] records;
}

struct metadata_t {
    // Records that are still to be parsed.
    bit<8>  unparsed;
    // The number of this hop, and whether another one follows.
    bit<16> hop;
    bit<1>  goes_on;
}

parser InspectionParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
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
            (5, UDP): parse_udp;
            default: accept;
        }
    }

    state parse_udp {
        packet.extract(hdr.udp);
        transition select(hdr.udp.dst) {
            INSPECTED: parse_inspection;
            default: accept;
        }
    }

    state parse_inspection {
        packet.extract(hdr.inspection);
        meta.unparsed = hdr.inspection.hops;
        transition parse_records;
    }

    state parse_records {
        transition select(meta.unparsed) {
            0: accept;
            default: parse_record;
        }
    }

    state parse_record {
        packet.extract(hdr.records.next);
        meta.unparsed = meta.unparsed - 1;
        transition parse_records;
    }
}

control InspectionVerifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control InspectionIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    // No route, no hops left, or more records than can be.
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

    // Another queue on the way, which is hop number `hop`; `goes_on`: one more follows.
    action pass(bit<16> hop, bit<9> port, bit<1> goes_on) {
        meta.hop = hop;
        meta.goes_on = goes_on;
        standard.egress_spec = port;
    }

    // The queues on the way of an inspected datagram, by how many it has passed.
    table hops {
        key = {
            hdr.ipv4.dst:        exact;
            hdr.inspection.hops: exact;
        }
        actions = {
            pass;
            drop;
        }
        default_action = drop();
        size = 64;
    }

    apply {
        if (!hdr.ipv4.isValid() || hdr.ipv4.ttl <= 1 || standard.parser_error != error.NoError) {
            drop();
            return;
        }
        routes.apply();
        if (hdr.inspection.isValid()) {
            hops.apply();
        }
    }
}

control InspectionEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        if (!hdr.inspection.isValid()) {
            return;
        }
        hdr.records.push_front(1);
        hdr.records[0].setValid();
        hdr.records[0].hop = meta.hop;
        hdr.records[0].depth = (bit<32>) standard.deq_qdepth;
        hdr.records[0].waited_us = standard.deq_timedelta;
        hdr.inspection.hops = hdr.inspection.hops + 1;
        hdr.ipv4.total_length = hdr.ipv4.total_length + GROWTH;
        hdr.udp.length = hdr.udp.length + GROWTH;
        // No checksum: it would be of bytes that the switch has changed.
        hdr.udp.checksum = 0;
        if (meta.goes_on == 1) {
            recirculate_preserving_field_list(0);
        }
    }
}

control InspectionComputeChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid() && hdr.ipv4.ihl == 5,
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.total_length, hdr.ipv4.identification,
              hdr.ipv4.flags, hdr.ipv4.fragment_offset, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control InspectionDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(InspectionParser(), InspectionVerifyChecksum(), InspectionIngress(), InspectionEgress(), InspectionComputeChecksum(),
         InspectionDeparser()) main;
