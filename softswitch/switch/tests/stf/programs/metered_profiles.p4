// SPDX-License-Identifier: Apache-2.0
// A table whose actions are in a selector, with a direct counter and a direct meter: both are of its entries, whatever member runs.
#include <core.p4>
#include <v1model.p4>

header body_t { bit<8> key; bit<8> pick; bit<8> result; bit<8> color; }
struct headers_t { body_t body; }
struct metadata_t { bit<2> color; }

parser ParserImpl(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.body);
        transition accept;
    }
}

control VerifyImpl(inout headers_t hdr, inout metadata_t meta) { apply { } }

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    // Chooses by the value of a field itself.
    action_selector(HashAlgorithm.identity, 16, 8) by_value;
    // Packets of each entry.
    direct_counter(CounterType.packets) found;
    // The color of each entry's packets.
    direct_meter<bit<2>>(MeterType.packets) rates;

    // Shows a value.
    action mark(bit<8> value) { found.count(); rates.read(meta.color); hdr.body.result = value; }
    // Shows the inverse of what was there.
    action flip() { found.count(); rates.read(meta.color); hdr.body.result = ~hdr.body.result; }

    // Groups and members by the key.
    table measured {
        key = { hdr.body.key : exact; hdr.body.pick : selector; }
        actions = { mark; flip; }
        implementation = by_value;
        counters = found;
        meters = rates;
    }
    apply {
        standard.egress_spec = 1;
        measured.apply();
        hdr.body.color = (bit<8>) meta.color;
    }
}

control EgressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) { apply { } }
control ComputeImpl(inout headers_t hdr, inout metadata_t meta) { apply { } }
control DeparserImpl(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }

V1Switch(ParserImpl(), VerifyImpl(), IngressImpl(), EgressImpl(), ComputeImpl(), DeparserImpl()) main;
