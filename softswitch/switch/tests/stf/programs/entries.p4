// SPDX-License-Identifier: Apache-2.0
// A direct meter whose color comes in metadata, one whose color is a field of a header, and a parser value set of two fields.
#include <core.p4>
#include <v1model.p4>

header body_t { bit<8> what; bit<12> kind; bit<4> pad; bit<8> color; bit<8> known; }
header more_t { bit<8> value; }
struct headers_t { body_t body; more_t more; }
struct metadata_t { bit<2> color; }
struct kind_t { bit<8> what; bit<12> kind; }

parser ParserImpl(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    // The pairs behind which another header follows.
    value_set<kind_t>(2) longer;
    state start {
        packet.extract(hdr.body);
        transition select(hdr.body.what, hdr.body.kind) {
            longer: parse_more;
            (0xee, 0xeee): parse_more;
            default: accept;
        }
    }
    state parse_more {
        packet.extract(hdr.more);
        transition accept;
    }
}

control VerifyImpl(inout headers_t hdr, inout metadata_t meta) { apply { } }

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    // Meters bytes of each kind of packets.
    direct_meter<bit<2>>(MeterType.bytes) by_bytes;
    // Meters packets of each kind.
    direct_meter<bit<8>>(MeterType.packets) by_packets;
    // Shows the color.
    action paint() {
        by_bytes.read(meta.color);
        hdr.body.color = (bit<8>) meta.color;
    }
    // Shows that no entry was found.
    action miss() { hdr.body.color = 0xff; }
    // Leaves the color where the meter wrote it.
    action keep() { by_packets.read(hdr.body.color); }
    // What is metered by bytes.
    table metered {
        key = { hdr.body.kind : exact; }
        actions = { paint; miss; }
        default_action = miss();
        meters = by_bytes;
    }
    // What is metered by packets.
    table counted {
        key = { hdr.body.kind : ternary; }
        actions = { keep; NoAction; }
        default_action = NoAction();
        meters = by_packets;
        support_timeout = true;
    }
    apply {
        standard.egress_spec = 1;
        hdr.body.known = (bit<8>) (bit<1>) hdr.more.isValid();
        if (hdr.body.what == 0) {
            metered.apply();
        } else {
            counted.apply();
        }
    }
}

control EgressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) { apply { } }
control ComputeImpl(inout headers_t hdr, inout metadata_t meta) { apply { } }
control DeparserImpl(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }

V1Switch(ParserImpl(), VerifyImpl(), IngressImpl(), EgressImpl(), ComputeImpl(), DeparserImpl()) main;
