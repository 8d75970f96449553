// SPDX-License-Identifier: Apache-2.0
// Times are in microseconds, and a packet is as long as it came in.
#include <core.p4>
#include <v1model.p4>

header body_t { bit<48> came; bit<48> left; bit<32> queued; bit<32> waited; bit<32> length; }
struct headers_t { body_t body; }
struct metadata_t { }

parser ParserImpl(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.body);
        transition accept;
    }
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        standard.egress_spec = 1;
        hdr.body.came = standard.ingress_global_timestamp;
    }
}

control EgressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        hdr.body.left = standard.egress_global_timestamp;
        hdr.body.queued = standard.enq_timestamp;
        hdr.body.waited = standard.deq_timedelta;
        hdr.body.length = standard.packet_length;
    }
}

control DeparserImpl(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr); }
}

control NoVerify(inout headers_t hdr, inout metadata_t meta) { apply { } }
control NoUpdate(inout headers_t hdr, inout metadata_t meta) { apply { } }

V1Switch(ParserImpl(), NoVerify(), IngressImpl(), EgressImpl(), NoUpdate(), DeparserImpl()) main;
