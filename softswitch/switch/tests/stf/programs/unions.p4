// SPDX-License-Identifier: Apache-2.0
// Header unions, and a stack of them: one member is valid at a time.
#include <core.p4>
#include <v1model.p4>

header kind_t { bit<8> kind; }
header narrow_t { bit<8> value; }
header wide_t { bit<32> value; }
header_union body_t { narrow_t narrow; wide_t wide; }
struct headers_t { kind_t kind; body_t body; body_t[2] bodies; }
struct metadata_t { }

parser ParserImpl(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.kind);
        transition select(hdr.kind.kind) {
            0: narrow;
            1: wide;
            2: narrow;
            4: stack;
            default: accept;
        }
    }
    state narrow {
        packet.extract(hdr.body.narrow);
        transition accept;
    }
    state stack {
        packet.extract(hdr.bodies.next.narrow);
        packet.extract(hdr.bodies.next.wide);
        transition accept;
    }
    state wide {
        packet.extract(hdr.body.wide);
        transition accept;
    }
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        standard.egress_spec = 1;
        if (hdr.body.isValid()) {
            standard.egress_spec = 3;
        }
        if (hdr.bodies[1].wide.isValid()) {
            // The narrow one is not valid any more.
            hdr.bodies[0].wide.setValid();
            hdr.bodies[0].wide.value = hdr.bodies[1].wide.value + 1;
        }
        if (hdr.kind.kind == 2) {
            // The narrow member is not valid any more.
            bit<32> value = (bit<32>)hdr.body.narrow.value;
            hdr.body.wide.setValid();
            hdr.body.wide.value = value + 1;
        } else if (hdr.body.wide.isValid()) {
            hdr.body.wide.value = hdr.body.wide.value + 1;
        }
    }
}

control EgressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) { apply { } }

control DeparserImpl(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr); }
}

control NoVerify(inout headers_t hdr, inout metadata_t meta) { apply { } }
control NoUpdate(inout headers_t hdr, inout metadata_t meta) { apply { } }

V1Switch(ParserImpl(), NoVerify(), IngressImpl(), EgressImpl(), NoUpdate(), DeparserImpl()) main;
