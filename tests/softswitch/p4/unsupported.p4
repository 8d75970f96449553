// A program with what the softswitch refuses: a range of more than 64 bits. Its P4Info is valid, so that a client can ask for it.
// SPDX-License-Identifier: Apache-2.0
#include <core.p4>
#include <v1model.p4>

struct headers_t { }

struct metadata_t { bit<65> number; }

parser NoParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        transition accept;
    }
}

control NoChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control ProbeIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    // Sends a packet out of a port.
    action send(bit<9> port) {
        standard.egress_spec = port;
    }

    // Has an entry for each range of numbers.
    table ranges {
        key = { meta.number: range; }
        actions = { send; }
    }

    apply {
        ranges.apply();
    }
}

control ProbeEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply { }
}

control NoDeparser(packet_out packet, in headers_t hdr) {
    apply { }
}

V1Switch(NoParser(), NoChecksum(), ProbeIngress(), ProbeEgress(), NoChecksum(), NoDeparser()) main;
