// The target's stateful parts on Tofino (TNA, T2NA). v1model/primitives.p4 holds their twins.
// SPDX-License-Identifier: Apache-2.0
#ifndef NARROWS_PRIMITIVES_P4
#define NARROWS_PRIMITIVES_P4

// Flow index and signature: two hashes of bottleneck and 5-tuple, made different by the order of the fields (CRC-32 for
// both, as on v1model). Signature 0 means "no owner yet", so the lowest bit of a signature is always 1. IPv4 and IPv6 hash in actions of their own, index and signature in tables
// of their own: one action carries at most 32 bits from the hash units.
control FlowHash(in headers_t hdr, in bottleneck_index_t bottleneck, out flow_index_t index, out bit<32> signature) {
    Hash<flow_index_t>(HashAlgorithm_t.CRC32) index_ipv4;
    Hash<flow_index_t>(HashAlgorithm_t.CRC32) index_ipv6;
    Hash<flow_index_t>(HashAlgorithm_t.CRC32) index_other;
    Hash<bit<32>>(HashAlgorithm_t.CRC32) signature_ipv4;
    Hash<bit<32>>(HashAlgorithm_t.CRC32) signature_ipv6;
    bit<16> src_port;
    bit<16> dst_port;

    apply {
        if (hdr.ports.isValid()) {
            src_port = hdr.ports.src;
            dst_port = hdr.ports.dst;
        } else {
            src_port = 0;
            dst_port = 0;
        }
        if (hdr.ipv4.isValid()) {
            index = index_ipv4.get({bottleneck, hdr.ipv4.src, hdr.ipv4.dst, hdr.ipv4.protocol, src_port, dst_port});
        } else if (hdr.ipv6.isValid()) {
            index = index_ipv6.get({bottleneck, hdr.ipv6.src, hdr.ipv6.dst, hdr.ipv6.next_header, src_port, dst_port});
        } else {
            index = index_other.get({bottleneck});
        }
        if (hdr.ipv4.isValid()) {
            signature = signature_ipv4.get({dst_port, src_port, hdr.ipv4.protocol, hdr.ipv4.dst, hdr.ipv4.src,
                                            bottleneck});
        } else if (hdr.ipv6.isValid()) {
            signature = signature_ipv6.get({dst_port, src_port, hdr.ipv6.next_header, hdr.ipv6.dst, hdr.ipv6.src,
                                            bottleneck});
        } else {
            signature = 0;
        }
        signature = signature | 1;
    }
}

// The first flow that meets a free index owns it, by its signature: a flow is new when it just did so, and collides when
// another one owns its index.
control FlowOwner(in flow_index_t index, in bit<32> signature, out bit<1> is_new, inout bit<8> flags) {
    Register<bit<32>, flow_index_t>(FLOW_COUNT) signatures;
    // One bit of the verdict is set, by what the register held: bit 0 another flow's signature, 1 nothing, 2 its own.
    RegisterAction<bit<32>, flow_index_t, bit<16>>(signatures) claim = {
        void apply(inout bit<32> stored, out bit<16> one_hot) {
            one_hot = this.predicate(stored == 0, stored == signature);
            if (stored == 0) {
                stored = signature;
            }
        }
    };
    bit<16> verdict;

    action own() {
        is_new = 0;
    }

    action claimed() {
        is_new = 1;
    }

    action collide() {
        is_new = 0;
        flags = flags | FLAG_COLLISION;
    }

    table judge {
        key = {
            verdict: exact;
        }
        actions = {
            own;
            claimed;
            collide;
        }
        const default_action = own();
        size = 2;
        const entries = {
            1: collide();
            2: claimed();
        }
    }

    apply {
        verdict = claim.execute(index);
        judge.apply();
    }
}

// Counts one packet of a flow and tells its number: 32 bits, wraps.
control PacketTotal(in flow_index_t index, out bit<32> total) {
    Register<bit<32>, flow_index_t>(FLOW_COUNT) totals;
    RegisterAction<bit<32>, flow_index_t, bit<32>>(totals) increment = {
        void apply(inout bit<32> stored, out bit<32> sum) {
            stored = stored + 1;
            sum = stored;
        }
    };

    apply {
        total = increment.execute(index);
    }
}

// Adds to a flow's total, 0 to read it only: 32 bits, wraps.
control RunningTotal(in flow_index_t index, in bit<32> increment, out bit<32> total) {
    Register<bit<32>, flow_index_t>(FLOW_COUNT) totals;
    RegisterAction<bit<32>, flow_index_t, bit<32>>(totals) add = {
        void apply(inout bit<32> stored, out bit<32> sum) {
            stored = stored + increment;
            sum = stored;
        }
    };

    apply {
        total = add.execute(index);
    }
}

// Counts one packet of a bottleneck and tells its number.
control BottleneckTotal(in bottleneck_index_t index, out bit<32> total) {
    Register<bit<32>, bottleneck_index_t>(BOTTLENECK_COUNT) totals;
    RegisterAction<bit<32>, bottleneck_index_t, bit<32>>(totals) increment = {
        void apply(inout bit<32> stored, out bit<32> sum) {
            stored = stored + 1;
            sum = stored;
        }
    };

    apply {
        total = increment.execute(index);
    }
}

// Largest depth so far of a bottleneck.
control HighWatermark(in bottleneck_index_t index, in bit<32> depth) {
    Register<bit<32>, bottleneck_index_t>(BOTTLENECK_COUNT) depths;
    RegisterAction<bit<32>, bottleneck_index_t, bit<32>>(depths) raise = {
        void apply(inout bit<32> highest) {
            if (depth > highest) {
                highest = depth;
            }
        }
    };

    apply {
        raise.execute(index);
    }
}

// Packets and bytes of a flow.
control FlowCounter(in flow_index_t index) {
    Counter<bit<64>, flow_index_t>(FLOW_COUNT, CounterType_t.PACKETS_AND_BYTES) flows;

    apply {
        flows.count(index);
    }
}

// Packets by bottleneck and delay bin.
control DelayHistogram(in bottleneck_index_t index, in bit<DELAY_BIN_WIDTH> bin) {
    Counter<bit<32>, bit<HISTOGRAM_WIDTH>>(HISTOGRAM_SIZE, CounterType_t.PACKETS) bins;

    apply {
        bins.count(index ++ bin);
    }
}

// One biased coin: heads with probability threshold / 2^32.
control Bernoulli(in bit<32> threshold, out bit<1> heads) {
    Random<bit<32>>() random;
    bit<32> value;
    bit<32> margin;

    action tails() {
        heads = 0;
    }

    action head() {
        heads = 1;
    }

    // value < threshold: gateways compare with constants only.
    table below_threshold {
        key = {
            margin: ternary;
        }
        actions = {
            tails;
            head;
        }
        const default_action = head();
        size = 1;
        const entries = {
            0: tails();
        }
    }

    apply {
        value = random.get();
        margin = threshold |-| value;
        below_threshold.apply();
    }
}

#endif
