// One table for each kind of match and one object for each thing that P4Runtime can name, to be driven by third-party
// clients. A probe frame says which of them it asks; the answer leaves with the tag that was found.
// SPDX-License-Identifier: Apache-2.0
#include <core.p4>
#include <v1model.p4>

const bit<16> ETHERTYPE_PROBE = 0x88b5;
const bit<9> ANSWER_PORT = 2;
const bit<32> CELLS = 8;

// What a probe asks for.
const bit<8> MARK = 0;      // leave by the port exact_key
const bit<8> EXACT = 1;
const bit<8> LPM = 2;
const bit<8> TERNARY = 3;
const bit<8> RANGE = 4;
const bit<8> OPTIONAL = 5;
const bit<8> MIXED = 6;
const bit<8> CONSTANT = 7;
const bit<8> COUNT = 8;     // count at the index exact_key
const bit<8> REGISTER = 9;  // answer what is at the index exact_key, leave lpm_key there
const bit<8> LEARN = 10;    // tell exact_key and lpm_key by a digest
const bit<8> COPY = 11;     // clone to the session exact_key

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> type;
}

header probe_t {
    bit<8>  kind;
    bit<16> exact_key;
    bit<32> lpm_key;
    bit<16> ternary_key;
    bit<16> range_key;
    bit<16> optional_key;
    bit<32> tag;
}

struct headers_t {
    ethernet_t ethernet;
    probe_t    probe;
}

struct metadata_t { }

struct learned_t {
    bit<16> key;
    bit<32> value;
}

parser ProbeParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            ETHERTYPE_PROBE: probe;
            default: accept;
        }
    }

    state probe {
        packet.extract(hdr.probe);
        transition accept;
    }
}

control NoChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control ProbeIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    direct_counter(CounterType.packets_and_bytes) exact_hits;
    direct_counter(CounterType.packets) ternary_hits;
    counter(CELLS, CounterType.packets_and_bytes) probes;
    register<bit<32>>(CELLS) memory;

    action answer(bit<9> port, bit<32> tag) {
        standard.egress_spec = port;
        hdr.probe.tag = tag;
    }

    action discard() {
        mark_to_drop(standard);
    }

    // For defaults only: answers that nothing matched.
    action unmatched(bit<32> tag) {
        standard.egress_spec = ANSWER_PORT;
        hdr.probe.tag = tag;
    }

    table exact_table {
        key = { hdr.probe.exact_key: exact @name("key"); }
        actions = { answer; discard; @defaultonly unmatched; }
        default_action = unmatched(0);
        counters = exact_hits;
        size = 4;
    }

    table lpm_table {
        key = { hdr.probe.lpm_key: lpm @name("key"); }
        actions = { answer; discard; @defaultonly unmatched; }
        default_action = unmatched(0);
        size = 64;
    }

    table ternary_table {
        key = { hdr.probe.ternary_key: ternary @name("key"); }
        actions = { answer; discard; @defaultonly unmatched; }
        default_action = unmatched(0);
        counters = ternary_hits;
        size = 64;
    }

    table range_table {
        key = { hdr.probe.range_key: range @name("key"); }
        actions = { answer; discard; @defaultonly unmatched; }
        default_action = unmatched(0);
        size = 64;
    }

    table optional_table {
        key = { hdr.probe.optional_key: optional @name("key"); }
        actions = { answer; discard; @defaultonly unmatched; }
        default_action = unmatched(0);
        size = 64;
    }

    table mixed_table {
        key = {
            hdr.probe.exact_key: exact @name("exact_key");
            hdr.probe.lpm_key: lpm @name("lpm_key");
            hdr.probe.ternary_key: ternary @name("ternary_key");
            hdr.probe.range_key: range @name("range_key");
            hdr.probe.optional_key: optional @name("optional_key");
        }
        actions = { answer; discard; @defaultonly unmatched; }
        const default_action = unmatched(0);
        size = 64;
    }

    table constant_table {
        key = { hdr.probe.exact_key: exact @name("key"); }
        actions = { answer; @defaultonly unmatched; }
        const entries = {
            1: answer(ANSWER_PORT, 101);
            2: answer(ANSWER_PORT, 102);
        }
        default_action = unmatched(0);
    }

    apply {
        standard.egress_spec = ANSWER_PORT;
        if (!hdr.probe.isValid()) {
            mark_to_drop(standard);
        } else if (hdr.probe.kind == MARK) {
            standard.egress_spec = (bit<9>)hdr.probe.exact_key;
        } else if (hdr.probe.kind == EXACT) {
            exact_table.apply();
        } else if (hdr.probe.kind == LPM) {
            lpm_table.apply();
        } else if (hdr.probe.kind == TERNARY) {
            ternary_table.apply();
        } else if (hdr.probe.kind == RANGE) {
            range_table.apply();
        } else if (hdr.probe.kind == OPTIONAL) {
            optional_table.apply();
        } else if (hdr.probe.kind == MIXED) {
            mixed_table.apply();
        } else if (hdr.probe.kind == CONSTANT) {
            constant_table.apply();
        } else if (hdr.probe.kind == COUNT) {
            probes.count((bit<32>)hdr.probe.exact_key);
        } else if (hdr.probe.kind == REGISTER) {
            memory.read(hdr.probe.tag, (bit<32>)hdr.probe.exact_key);
            memory.write((bit<32>)hdr.probe.exact_key, hdr.probe.lpm_key);
        } else if (hdr.probe.kind == LEARN) {
            digest<learned_t>(1, {hdr.probe.exact_key, hdr.probe.lpm_key});
        }
    }
}

control ProbeEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        // 0: not a clone.
        if (standard.instance_type == 0 && hdr.probe.kind == COPY) {
            clone(CloneType.E2E, (bit<32>)hdr.probe.exact_key);
        }
    }
}

control ProbeDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(ProbeParser(), NoChecksum(), ProbeIngress(), ProbeEgress(), NoChecksum(), ProbeDeparser()) main;
