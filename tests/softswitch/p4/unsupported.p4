// A program with what the softswitch refuses: a direct meter. Its P4Info is valid, so that a client can ask for it.
// SPDX-License-Identifier: Apache-2.0
#include <core.p4>
#include <v1model.p4>

struct headers_t { }

struct metadata_t {
    bit<2> colour;
}

parser NoParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        transition accept;
    }
}

control NoChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control ProbeIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    direct_meter<bit<2>>(MeterType.bytes) police;

    // Takes the color that the meter gives a packet.
    action color() {
        police.read(meta.colour);
    }

    // Has the meter's entries, each of which polices one port.
    table policed {
        key = { standard.ingress_port: exact; }
        actions = { color; }
        const default_action = color();
        meters = police;
    }

    apply {
        policed.apply();
        if (meta.colour == 2) {
            mark_to_drop(standard);
        }
    }
}

control ProbeEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply { }
}

control NoDeparser(packet_out packet, in headers_t hdr) {
    apply { }
}

V1Switch(NoParser(), NoChecksum(), ProbeIngress(), ProbeEgress(), NoChecksum(), NoDeparser()) main;
