// A header that is emitted twice, with one that the program adds between, and a stack that is.
// SPDX-License-Identifier: Apache-2.0
#include <core.p4>
#include <v1model.p4>

header byte_t {
    bit<8> value;
}

struct headers_t {
    byte_t    first;
    byte_t    added;
    byte_t[2] pair;
}

struct metadata_t { }

parser MyParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.first);
        packet.extract(hdr.pair.next);
        packet.extract(hdr.pair.next);
        transition accept;
    }
}

control NoChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        standard.egress_spec = 1;
        if (hdr.first.value == 1) {
            hdr.added.setValid();
            hdr.added.value = 0xdd;
        }
    }
}

control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        // Both copies have what egress has written.
        hdr.pair[1].value = hdr.pair[1].value + 1;
        if (hdr.first.value == 2) {
            hdr.first.setInvalid();
        }
    }
}

control MyDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.first);
        packet.emit(hdr.added);
        packet.emit(hdr.first);
        packet.emit(hdr.pair);
        packet.emit(hdr.pair);
    }
}

V1Switch(MyParser(), NoChecksum(), MyIngress(), MyEgress(), NoChecksum(), MyDeparser()) main;
