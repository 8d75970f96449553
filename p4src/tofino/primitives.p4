// The target's stateful parts on Tofino (TNA, T2NA). v1model/primitives.p4 holds their twins.
// SPDX-License-Identifier: Apache-2.0
#ifndef NARROWS_PRIMITIVES_P4
#define NARROWS_PRIMITIVES_P4

// Flow index and signature: two hashes of bottleneck and 5-tuple, made different by the order of the fields (CRC-32 for
// both, as on v1model). Each is a table of its own, since one action carries at most 32 bits from the hash units.
//
// The upper bits of an index are its share's (flow_share.p4); they are set first, and the hash fills in what is left, so
// that nothing waits for the hash to be changed.
control FlowIndex(in flow_identity_t identity, in bottleneck_index_t bottleneck, in bit<8> share,
                  out flow_index_t index) {
    FlowShare() flow_share;
    Hash<flow_index_t>(HashAlgorithm_t.CRC32) hash;
    Hash<bit<(FLOW_INDEX_WIDTH - 2)>>(HashAlgorithm_t.CRC32) hash_in_quarter;

    // The hash's low bits are the index.
    action of_all() {
        index = hash.get({bottleneck, identity.src, identity.dst, identity.protocol, identity.src_port,
                          identity.dst_port});
    }

    // All but the two highest bits.
    action of_quarter() {
        index[FLOW_INDEX_WIDTH - 3:0] = hash_in_quarter.get({bottleneck, identity.src, identity.dst, identity.protocol,
                                                             identity.src_port, identity.dst_port});
    }

    // How much of an index is the hash's: the shares that are quarters have the highest bit. Every packet meets an entry,
    // since a default action has no hash unit.
    table index_of {
        key = {
            share: ternary @name("share");
        }
        actions = {
            of_all;
            of_quarter;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        const entries = {
            0x80 &&& 0x80: of_quarter();
            0 &&& 0: of_all();
        }
    }

    apply {
        flow_share.apply(share, index);
        index_of.apply();
    }
}

// Signature 0 means "no owner yet", so the lowest bit of a signature is always 1.
control FlowSignature(in flow_identity_t identity, in bottleneck_index_t bottleneck, out bit<32> signature) {
    Hash<bit<32>>(HashAlgorithm_t.CRC32) hash;
    bit<32> hashed;

    // All 32 bits of the other hash.
    action set_signature() {
        hashed = hash.get({identity.dst_port, identity.src_port, identity.protocol, identity.dst, identity.src,
                           bottleneck});
    }

    // Without a key, as `index_of`.
    table signature_of {
        actions = {
            set_signature;
        }
        const default_action = set_signature();
        size = 1;
    }

    // Makes a signature of a hash.
    action set_lowest_bit() {
        signature = hashed | 1;
    }

    // A table of its own: what the hash unit writes can be changed a stage later only.
    table claimable {
        actions = {
            set_lowest_bit;
        }
        const default_action = set_lowest_bit();
        size = 1;
    }

    apply {
        signature_of.apply();
        claimable.apply();
    }
}

// The first flow that meets a free index owns it, by its signature: a flow is new when it just did so, and collides
// when another one owns its index.
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

    // The index is this flow's already.
    action own() {
        is_new = 0;
    }

    // The index was free and is this flow's from now on: the control plane learns of it.
    action claimed() {
        is_new = 1;
    }

    // The index is another flow's: reports say so.
    action collide() {
        is_new = 0;
        flags = flags | FLAG_COLLISION;
    }

    // From the register's verdict to what the flow is.
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

// Packets and bytes of a flow: of its frames alone, `counted_besides` is taken off every packet.
control FlowCounter(in flow_index_t index)(bit<32> counted_besides) {
    Counter<bit<64>, flow_index_t>(FLOW_COUNT, CounterType_t.PACKETS_AND_BYTES) flows;

    // Counts into the flow's cell.
    action count() {
        flows.count(index, counted_besides);
    }

    // The largest memory of the program, less than a stage has but more than half of it: placed as soon as it can be.
    @placement_priority(1)
    table counting {
        actions = {
            count;
        }
        const default_action = count();
        size = 1;
    }

    apply {
        counting.apply();
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

    // The packet is lost.
    action head() {
        heads = 1;
    }

    // value < threshold: gateways compare with constants only.
    table below_threshold {
        key = {
            margin: ternary;
        }
        actions = {
            head;
            NoAction;
        }
        const default_action = head();
        size = 1;
        const entries = {
            0: NoAction();
        }
    }

    apply {
        heads = 0;
        value = random.get();
        margin = threshold |-| value;
        below_threshold.apply();
    }
}

#endif
