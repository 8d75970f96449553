// ECN marking at a threshold: what finds so many packets in its queue leaves with CE, if its sender understands marks (RFC 3168).
// Routes IPv4 like a first exercise in P4.
// SPDX-License-Identifier: Apache-2.0
#include <core.p4>
#include <v1model.p4>

const bit<16> TYPE_IPV4 = 0x0800;
const bit<2> NOT_ECT = 0;
const bit<2> CE = 3;

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

struct headers_t {
    ethernet_t ethernet;
    ipv4_t     ipv4;
}

struct metadata_t {}

parser MarkParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ethertype) {
            TYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition accept;
    }
}

control MarkVerifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control MarkIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
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

    apply {
        if (hdr.ipv4.isValid() && hdr.ipv4.ttl > 1) {
            routes.apply();
        } else {
            drop();
        }
    }
}

control MarkEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    // A port whose queue marks what finds so many packets in it.
    action mark_from(bit<19> packets) {
        if (standard.enq_qdepth >= packets && hdr.ipv4.isValid() && hdr.ipv4.ecn != NOT_ECT) {
            hdr.ipv4.ecn = CE;
        }
    }

    // The ports that mark, and from which depth on.
    table marking_ports {
        key = {
            standard.egress_port: exact;
        }
        actions = {
            mark_from;
            NoAction;
        }
        default_action = NoAction();
        size = 512;
    }

    apply {
        marking_ports.apply();
    }
}

control MarkComputeChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid(),
            {hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp, hdr.ipv4.ecn, hdr.ipv4.total_length, hdr.ipv4.identification,
             hdr.ipv4.flags, hdr.ipv4.fragment_offset, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst},
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control MarkDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
    }
}

V1Switch(MarkParser(), MarkVerifyChecksum(), MarkIngress(), MarkEgress(), MarkComputeChecksum(), MarkDeparser()) main;
