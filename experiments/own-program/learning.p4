// A switch that knows no address: it shows its controller each packet from or to one that it has no entry for.
// SPDX-License-Identifier: Apache-2.0
#include <core.p4>
#include <v1model.p4>

// The port of the controller.
const bit<9> CPU_PORT = 255;

// In front of a packet to the controller.
@controller_header("packet_in")
header to_controller_t {
    bit<9> ingress_port;
    @padding bit<7> unused;
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

parser MyParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
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

control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    // Shows the packet to the controller, with the port by which it has come.
    action ask() {
        hdr.to_controller.setValid();
        hdr.to_controller.ingress_port = standard.ingress_port;
        standard.egress_spec = CPU_PORT;
    }

    // Sends the packet to the port of its destination.
    action send(bit<9> port) {
        standard.egress_spec = port;
    }

    // Has the addresses that the controller has learned, and where they are.
    table sources {
        key = {
            hdr.ethernet.src:      exact @name("src");
            standard.ingress_port: exact @name("port");
        }
        actions = { NoAction; ask; }
        default_action = ask();
    }

    // Has the port of each address.
    table destinations {
        key = { hdr.ethernet.dst: exact @name("dst"); }
        actions = { send; ask; }
        default_action = ask();
    }

    apply {
        if (hdr.from_controller.isValid()) {
            standard.egress_spec = hdr.from_controller.egress_port;
            hdr.from_controller.setInvalid();
        } else if (sources.apply().hit) {
            destinations.apply();
        }
    }
}

control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply { }
}

control MyDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.to_controller);
        packet.emit(hdr.ethernet);
    }
}

V1Switch(MyParser(), NoChecksum(), MyIngress(), MyEgress(), NoChecksum(), MyDeparser()) main;
