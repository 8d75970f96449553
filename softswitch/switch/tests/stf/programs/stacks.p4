// SPDX-License-Identifier: Apache-2.0
// Header stacks: extraction to the next element, the last one in a select, an index that only the packet knows, read and written,
// push and pop.
#include <core.p4>
#include <v1model.p4>

// What to do, then labels until one says that it is the last.
header command_t { bit<8> what; bit<8> index; }
header label_t { bit<8> value; bit<8> last; }
struct headers_t { command_t command; label_t[3] labels; }
struct metadata_t { }

parser ParserImpl(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.command);
        transition labels;
    }
    state labels {
        packet.extract(hdr.labels.next);
        transition select(hdr.labels.last.last) {
            0: labels;
            default: accept;
        }
    }
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        standard.egress_spec = 1;
        if (standard.parser_error != error.NoError) {
            // More labels than the stack holds, or none that is the last.
            standard.egress_spec = 2;
        } else if (hdr.command.what == 1) {
            hdr.labels.push_front(1);
            hdr.labels[0].setValid();
            hdr.labels[0].value = 0xaa;
            hdr.labels[0].last = 0;
        } else if (hdr.command.what == 2) {
            hdr.labels.pop_front(1);
        } else if (hdr.command.what == 3) {
            hdr.command.index = hdr.labels[1].value;
            if (hdr.labels[2].isValid()) {
                hdr.labels[2].value = 0xff;
            }
        } else if (hdr.command.what == 4) {
            // The index is written with the value: it is read before.
            hdr.labels[hdr.command.index].value = hdr.command.index + 0x50;
        } else if (hdr.command.what == 5) {
            hdr.labels[hdr.labels[0].value].value = hdr.labels[hdr.labels[0].value].value + 1;
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
