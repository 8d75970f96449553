// A program with what the softswitch refuses: a meter. Its P4Info is valid, so that a client can ask for it.
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
    meter(8, MeterType.bytes) police;

    apply {
        police.execute_meter(32w1, meta.colour);
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
