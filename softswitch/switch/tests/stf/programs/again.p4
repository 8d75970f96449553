// SPDX-License-Identifier: Apache-2.0
// Packets that go through ingress again: resubmitted as they came, recirculated as they left, with what they keep.
#include <core.p4>
#include <v1model.p4>

header body_t { bit<8> what; bit<8> count; bit<32> kind; }
struct headers_t { body_t body; }
struct metadata_t {
    @field_list(1)
    bit<8> rounds;
    bit<8> forgotten;
}

parser ParserImpl(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.body);
        transition accept;
    }
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        standard.egress_spec = 1;
        hdr.body.count = hdr.body.count + 1;
        hdr.body.kind = standard.instance_type;
        if (hdr.body.what == 1 && meta.rounds < 3) {
            // What is written to the packet is undone, what the list names is kept, other metadata is 0 again.
            meta.rounds = meta.rounds + 1;
            meta.forgotten = 7;
            resubmit_preserving_field_list(1);
        } else if (hdr.body.what == 1) {
            hdr.body.count = hdr.body.count + meta.rounds + meta.forgotten;
        }
    }
}

control EgressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        if (hdr.body.what == 2 && meta.rounds < 2) {
            meta.rounds = meta.rounds + 1;
            recirculate_preserving_field_list(1);
        }
    }
}

control DeparserImpl(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr); }
}

control NoVerify(inout headers_t hdr, inout metadata_t meta) { apply { } }
control NoUpdate(inout headers_t hdr, inout metadata_t meta) { apply { } }

V1Switch(ParserImpl(), NoVerify(), IngressImpl(), EgressImpl(), NoUpdate(), DeparserImpl()) main;
