// SPDX-License-Identifier: Apache-2.0
// Multicast groups, with a priority and an instance of each replica, and clones of both kinds that keep fields.
#include <core.p4>
#include <v1model.p4>

header body_t { bit<8> what; bit<16> group; bit<16> instance; bit<32> kind; bit<8> kept; }
struct headers_t { body_t body; }
struct metadata_t {
    @field_list(1)
    bit<8> kept;
    bit<8> lost;
}

parser ParserImpl(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.body);
        transition accept;
    }
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        meta.kept = 0x55;
        meta.lost = 0x77;
        if (hdr.body.what == 0) {
            standard.mcast_grp = hdr.body.group;
        } else {
            standard.egress_spec = 1;
        }
        if (hdr.body.what == 1) {
            hdr.body.kept = 0xee;
            clone_preserving_field_list(CloneType.I2E, 5, 1);
        }
    }
}

control EgressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        if (standard.instance_type == 0 && hdr.body.what == 2) {
            clone_preserving_field_list(CloneType.E2E, 5, 1);
        }
        hdr.body.instance = standard.egress_rid;
        hdr.body.kind = standard.instance_type;
        hdr.body.kept = hdr.body.kept + meta.kept + meta.lost;
    }
}

control DeparserImpl(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr); }
}

control NoVerify(inout headers_t hdr, inout metadata_t meta) { apply { } }
control NoUpdate(inout headers_t hdr, inout metadata_t meta) { apply { } }

V1Switch(ParserImpl(), NoVerify(), IngressImpl(), EgressImpl(), NoUpdate(), DeparserImpl()) main;
