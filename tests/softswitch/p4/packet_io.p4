// A program that shows its controller what it does not know, and sends what the controller says: packet-in and packet-out.
// SPDX-License-Identifier: Apache-2.0
#include <core.p4>
#include <v1model.p4>

const bit<9> CPU_PORT = 255;
// What the controller is to see.
const bit<16> ETHERTYPE_PUNTED = 0x88b5;
// The reason for a packet-in: its type.
const bit<7> PUNTED = 5;

// In front of a packet to the controller.
@controller_header("packet_in")
header to_controller_t {
    bit<9> ingress_port;
    bit<7> reason;
}

// In front of a packet from the controller.
@controller_header("packet_out")
header from_controller_t {
    bit<9> egress_port;
    @padding bit<7> unused;
}

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> type;
}

struct headers_t {
    to_controller_t   to_controller;
    from_controller_t from_controller;
    ethernet_t        ethernet;
}

struct metadata_t { }

parser PacketParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        transition select(standard.ingress_port) {
            CPU_PORT: from_controller;
            default: ethernet;
        }
    }

    state from_controller {
        packet.extract(hdr.from_controller);
        transition ethernet;
    }

    state ethernet {
        packet.extract(hdr.ethernet);
        transition accept;
    }
}

control NoChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control PacketIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        if (hdr.from_controller.isValid()) {
            standard.egress_spec = hdr.from_controller.egress_port;
            hdr.from_controller.setInvalid();
        } else if (hdr.ethernet.type == ETHERTYPE_PUNTED) {
            hdr.to_controller.setValid();
            hdr.to_controller.ingress_port = standard.ingress_port;
            hdr.to_controller.reason = PUNTED;
            standard.egress_spec = CPU_PORT;
        } else {
            mark_to_drop(standard);
        }
    }
}

control PacketEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply { }
}

control PacketDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.to_controller);
        packet.emit(hdr.ethernet);
    }
}

V1Switch(PacketParser(), NoChecksum(), PacketIngress(), PacketEgress(), NoChecksum(), PacketDeparser()) main;
