// SPDX-License-Identifier: Apache-2.0
// A header with a varbit, and a field behind it: extraction of any length, errors, copies, comparisons, a checksum, and what is
// made valid anew.
#include <core.p4>
#include <v1model.p4>

header command_t { bit<8> what; bit<16> result; }
header options_t { bit<8> bytes; varbit<56> data; bit<8> behind; }
struct headers_t { command_t command; options_t first; options_t second; }
struct metadata_t { bit<8> bytes; }

parser ParserImpl(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.command);
        transition select(hdr.command.what) {
            5: bits;
            default: first;
        }
    }
    // Not a whole number of bytes.
    state bits {
        packet.extract(hdr.first, 12);
        transition accept;
    }
    state first {
        meta.bytes = packet.lookahead<bit<8>>();
        packet.extract(hdr.first, (bit<32>)meta.bytes * 8);
        meta.bytes = packet.lookahead<bit<8>>();
        packet.extract(hdr.second, (bit<32>)meta.bytes * 8);
        transition accept;
    }
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        standard.egress_spec = 1;
        if (standard.parser_error == error.PacketTooShort) {
            standard.egress_spec = 2;
        } else if (standard.parser_error == error.HeaderTooShort) {
            standard.egress_spec = 3;
        } else if (standard.parser_error == error.ParserInvalidArgument) {
            standard.egress_spec = 4;
        } else if (hdr.command.what == 1) {
            hdr.first = hdr.second;
        } else if (hdr.command.what == 2) {
            hdr.second.data = hdr.first.data;
        } else if (hdr.command.what == 3) {
            if (hdr.first.data == hdr.second.data) {
                hdr.command.result = 1;
            }
        } else if (hdr.command.what == 4) {
            hash(hdr.command.result, HashAlgorithm.csum16, 16w0, { hdr.first.data, hdr.second.behind }, 32w0x10000);
        } else if (hdr.command.what == 6) {
            // Anew, its varbit is empty.
            hdr.first.setInvalid();
            hdr.first.setValid();
            hdr.first.bytes = 0;
            hdr.first.behind = 0xee;
            // What is written to a header that is not valid is not there afterwards.
            hdr.second.setInvalid();
            hdr.second.data = hdr.first.data;
        } else if (hdr.command.what == 7) {
            hdr.second.setInvalid();
            hdr.second.data = hdr.first.data;
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
