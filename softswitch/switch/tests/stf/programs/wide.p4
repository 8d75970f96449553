// SPDX-License-Identifier: Apache-2.0
// Fields and registers that are wider than two machine words, some of them not at whole bytes.
#include <core.p4>
#include <v1model.p4>

header body_t { bit<8> what; bit<4> odd; bit<200> first; bit<200> second; bit<4> even; bit<8> result; }
header long_t { bit<2048> all; }
struct headers_t { body_t body; long_t long; }
struct metadata_t { bit<200> kept; bit<2048> all; }

parser ParserImpl(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        transition select(packet.lookahead<bit<8>>()) {
            0xff: parse_long;
            default: parse_body;
        }
    }
    state parse_body {
        packet.extract(hdr.body);
        transition accept;
    }
    state parse_long {
        packet.extract(hdr.long);
        transition accept;
    }
}

control VerifyImpl(inout headers_t hdr, inout metadata_t meta) { apply { } }

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    // Keeps a field from one packet to the next.
    register<bit<200>>(4) cells;
    // Keeps the longest field.
    register<bit<2048>>(1) longest;
    apply {
        standard.egress_spec = 1;
        if (hdr.long.isValid()) {
            longest.read(meta.all, 0);
            longest.write(0, hdr.long.all);
            hdr.long.all = meta.all ^ hdr.long.all;
        } else if (hdr.body.what == 0) {
            hdr.body.first = hdr.body.first + hdr.body.second;
        } else if (hdr.body.what == 1) {
            hdr.body.first = hdr.body.first - hdr.body.second;
        } else if (hdr.body.what == 2) {
            hdr.body.first = ~hdr.body.first & hdr.body.second | 0x1;
        } else if (hdr.body.what == 3) {
            hdr.body.first = hdr.body.first << 68;
            hdr.body.second = hdr.body.second >> 68;
        } else if (hdr.body.what == 4) {
            hdr.body.result[0:0] = (bit<1>) (hdr.body.first == hdr.body.second ? 1w1 : 1w0);
            hdr.body.result[1:1] = (bit<1>) (hdr.body.first < hdr.body.second ? 1w1 : 1w0);
            hdr.body.result[2:2] = (bit<1>) (hdr.body.first >= hdr.body.second ? 1w1 : 1w0);
            hdr.body.result[3:3] = (bit<1>) (hdr.body.first > hdr.body.second ? 1w1 : 1w0);
            hdr.body.result[4:4] = (bit<1>) (hdr.body.first <= hdr.body.second ? 1w1 : 1w0);
            hdr.body.result[5:5] = (bit<1>) (hdr.body.first != hdr.body.second ? 1w1 : 1w0);
        } else if (hdr.body.what == 5) {
            cells.read(meta.kept, (bit<32>) hdr.body.result);
            cells.write((bit<32>) hdr.body.result, hdr.body.first);
            hdr.body.second = meta.kept;
        } else if (hdr.body.what == 6) {
            hdr.body.result = hdr.body.first[139:132];
            hdr.body.second = hdr.body.first[99:0] ++ hdr.body.second[199:100];
        } else {
            hdr.body.first = hdr.body.result == 0 ? hdr.body.second : 200w0xc0ffee0000000000000000000000000000000000000000beef;
        }
    }
}

control EgressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) { apply { } }
control ComputeImpl(inout headers_t hdr, inout metadata_t meta) { apply { } }
control DeparserImpl(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }

V1Switch(ParserImpl(), VerifyImpl(), IngressImpl(), EgressImpl(), ComputeImpl(), DeparserImpl()) main;
