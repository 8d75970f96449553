// Link monitoring by probes: a UDP datagram names ports of the switch, visits the queue of one after the other, and leaves by the last.
// Of each link it brings the bytes that the link has sent since the last probe and the time since then: its utilisation. Routes
// IPv4 like a first exercise in P4.
// SPDX-License-Identifier: Apache-2.0
#include <core.p4>
#include <v1model.p4>

const bit<16> TYPE_IPV4 = 0x0800;
const bit<8> UDP = 17;
// The UDP port that probes are sent to.
const bit<16> PROBES = 6100;
// Ports that a probe can name, and as many records.
#define LONGEST_WAY 4
// Bytes that a visit adds: a record, less the name of the port.
const bit<16> GROWTH = 14;
const bit<32> PORTS = 512;

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

// What a probe begins with: ports that it still has to visit, and records that it has.
header probe_t {
    bit<8> left;
    bit<8> seen;
}

// A port to visit.
header way_t {
    bit<16> port;
}

// What a link has sent since the last probe; the last visit comes first.
header record_t {
    bit<16> port;
    bit<64> bytes;
    bit<48> microseconds;
}

struct headers_t {
    ethernet_t            ethernet;
    ipv4_t                ipv4;
    udp_t                 udp;
    probe_t               probe;
    way_t[LONGEST_WAY]    way;
    record_t[LONGEST_WAY] records;
}

struct metadata_t {
    // Elements of a list that are still to be parsed.
    bit<8> unparsed;
}

parser MonitorParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
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
            PROBES: parse_probe;
            default: accept;
        }
    }

    state parse_probe {
        packet.extract(hdr.probe);
        meta.unparsed = hdr.probe.left;
        transition parse_way;
    }

    state parse_way {
        transition select(meta.unparsed) {
            0: begin_records;
            default: parse_port;
        }
    }

    state parse_port {
        packet.extract(hdr.way.next);
        meta.unparsed = meta.unparsed - 1;
        transition parse_way;
    }

    state begin_records {
        meta.unparsed = hdr.probe.seen;
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

control MonitorVerifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control MonitorIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    // No route, no hops left, or a probe that cannot be.
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

    apply {
        if (!hdr.ipv4.isValid() || hdr.ipv4.ttl <= 1 || standard.parser_error != error.NoError) {
            drop();
            return;
        }
        routes.apply();
        if (hdr.probe.isValid()) {
            if (hdr.probe.left == 0) {
                drop();
                return;
            }
            standard.egress_spec = (bit<9>) hdr.way[0].port;
            hdr.way.pop_front(1);
            hdr.probe.left = hdr.probe.left - 1;
        }
    }
}

control MonitorEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    // What each port has sent since the last probe, but for probes.
    register<bit<64>>(PORTS) sent_bytes;
    // When the last probe was at the port, in microseconds of the switch's clock.
    register<bit<48>>(PORTS) last_visit;

    apply {
        bit<32> port = (bit<32>) standard.egress_port;
        bit<64> bytes;
        bit<48> visited;
        sent_bytes.read(bytes, port);
        if (!hdr.probe.isValid()) {
            sent_bytes.write(port, bytes + (bit<64>) standard.packet_length);
            return;
        }
        last_visit.read(visited, port);
        hdr.records.push_front(1);
        hdr.records[0].setValid();
        hdr.records[0].port = (bit<16>) port;
        hdr.records[0].bytes = bytes;
        hdr.records[0].microseconds = standard.egress_global_timestamp - visited;
        sent_bytes.write(port, 0);
        last_visit.write(port, standard.egress_global_timestamp);
        hdr.probe.seen = hdr.probe.seen + 1;
        hdr.ipv4.total_length = hdr.ipv4.total_length + GROWTH;
        hdr.udp.length = hdr.udp.length + GROWTH;
        // No checksum: it would be of bytes that the switch has changed.
        hdr.udp.checksum = 0;
        if (hdr.probe.left > 0) {
            recirculate_preserving_field_list(0);
        }
    }
}

control MonitorComputeChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid() && hdr.ipv4.ihl == 5,
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.total_length, hdr.ipv4.identification,
              hdr.ipv4.flags, hdr.ipv4.fragment_offset, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control MonitorDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(MonitorParser(), MonitorVerifyChecksum(), MonitorIngress(), MonitorEgress(), MonitorComputeChecksum(),
         MonitorDeparser()) main;
