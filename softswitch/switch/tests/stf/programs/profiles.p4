// SPDX-License-Identifier: Apache-2.0
// Action profiles: one that two tables share, and selectors by the value of a field and by a CRC.
#include <core.p4>
#include <v1model.p4>

header body_t { bit<8> what; bit<8> key; bit<8> pick; bit<72> digits; bit<8> result; bit<8> way; }
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
    // Actions that two tables share.
    action_profile(4) shared;
    // Chooses by the value of a field itself.
    action_selector(HashAlgorithm.identity, 16, 8) by_value;
    // Chooses by a CRC.
    action_selector(HashAlgorithm.crc16, 16, 16) by_crc;

    // Shows a value.
    action mark(bit<8> value) { hdr.body.result = value; }
    // Shows the inverse of what was there.
    action flip() { hdr.body.result = ~hdr.body.result; }
    // Shows that an action of a switch statement ran.
    action way(bit<8> value) { hdr.body.way = value; }

    // Whether it found an entry decides the way.
    table first {
        key = { hdr.body.key : exact; }
        actions = { mark; flip; }
        implementation = shared;
    }
    // The same members by another key.
    table second {
        key = { hdr.body.key : ternary; }
        actions = { mark; flip; }
        implementation = shared;
    }
    // Which action it ran decides the way.
    table third {
        key = { hdr.body.key : exact; hdr.body.pick : selector; }
        actions = { mark; flip; }
        implementation = by_value;
    }
    // Its groups have members of different weights.
    table fourth {
        key = { hdr.body.key : lpm; hdr.body.digits : selector; }
        actions = { mark; flip; NoAction; }
        implementation = by_crc;
    }
    apply {
        standard.egress_spec = 1;
        if (hdr.body.what == 0) {
            if (first.apply().hit) { way(0xaa); } else { way(0xbb); }
        } else if (hdr.body.what == 1) {
            second.apply();
        } else if (hdr.body.what == 2) {
            switch (third.apply().action_run) {
                flip: { way(0xcc); }
                default: { way(0xdd); }
            }
        } else {
            fourth.apply();
        }
    }
}

control EgressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) { apply { } }
control ComputeImpl(inout headers_t hdr, inout metadata_t meta) { apply { } }
control DeparserImpl(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }

V1Switch(ParserImpl(), VerifyImpl(), IngressImpl(), EgressImpl(), ComputeImpl(), DeparserImpl()) main;
