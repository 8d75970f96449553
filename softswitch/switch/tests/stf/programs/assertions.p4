// SPDX-License-Identifier: Apache-2.0
// What a program asserts and assumes of its packets.
#include <core.p4>
#include <v1model.p4>

header body_t { bit<8> what; bit<8> value; }
struct headers_t { body_t body; }
struct metadata_t { }

parser ParserImpl(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.body);
        transition accept;
    }
}

control VerifyImpl(inout headers_t hdr, inout metadata_t meta) { apply { } }

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        standard.egress_spec = 1;
        assume(hdr.body.isValid());
        if (hdr.body.what == 1) {
            assert(hdr.body.value < 10);
        }
    }
}

control EgressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply { assert(hdr.body.what != 2 || hdr.body.value == 7); }
}
control ComputeImpl(inout headers_t hdr, inout metadata_t meta) { apply { } }
control DeparserImpl(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }

V1Switch(ParserImpl(), VerifyImpl(), IngressImpl(), EgressImpl(), ComputeImpl(), DeparserImpl()) main;
