// SPDX-License-Identifier: Apache-2.0
// A meter of bytes, one of packets, and an index beyond the array.
#include <core.p4>
#include <v1model.p4>

header body_t { bit<8> what; bit<32> index; bit<8> color; }
struct headers_t { body_t body; }
struct metadata_t { bit<8> color; }

parser ParserImpl(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.body);
        transition accept;
    }
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    meter(4, MeterType.bytes) by_bytes;
    meter(4, MeterType.packets) by_packets;
    apply {
        standard.egress_spec = 1;
        if (hdr.body.what == 0) {
            by_bytes.execute_meter(hdr.body.index, meta.color);
        } else {
            by_packets.execute_meter(hdr.body.index, meta.color);
        }
        hdr.body.color = meta.color;
    }
}

control EgressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) { apply { } }

control DeparserImpl(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr); }
}

control NoVerify(inout headers_t hdr, inout metadata_t meta) { apply { } }
control NoUpdate(inout headers_t hdr, inout metadata_t meta) { apply { } }

V1Switch(ParserImpl(), NoVerify(), IngressImpl(), EgressImpl(), NoUpdate(), DeparserImpl()) main;
