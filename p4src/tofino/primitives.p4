// The stateful parts on Tofino (TNA, T2NA). v1model/primitives.p4 has their counterparts.
// SPDX-License-Identifier: Apache-2.0
#ifndef NARROWS_PRIMITIVES_P4
#define NARROWS_PRIMITIVES_P4

// Flow index and signature: two hashes of bottleneck and 5-tuple. Both are CRC-32, as on v1model, and differ by the order of
// the fields. Each has its own table, since one action takes at most 32 bits from the hash units.
//
// The upper bits of an index are those of its share (flow_share.p4). They are set first and the hash fills in the rest, so
// that no stage is spent on changing the hash afterwards.
control FlowIndex(in flow_identity_t identity, in bottleneck_index_t bottleneck, in bit<8> share,
                  out flow_index_t index) {
    FlowShare() flow_share;
    Hash<flow_index_t>(HashAlgorithm_t.CRC32) hash;
    Hash<bit<(FLOW_INDEX_WIDTH - 2)>>(HashAlgorithm_t.CRC32) hash_in_quarter;

    // The index is the low bits of the hash.
    action of_all() {
        index = hash.get({bottleneck, identity.src, identity.dst, identity.protocol, identity.src_port,
                          identity.dst_port});
    }

    // All bits but the two highest are the hash's.
    action of_quarter() {
        index[FLOW_INDEX_WIDTH - 3:0] = hash_in_quarter.get({bottleneck, identity.src, identity.dst, identity.protocol,
                                                             identity.src_port, identity.dst_port});
    }

    // How many bits of an index are the hash's: shares that are quarters have the highest bit set. The entries match every
    // packet, since a default action cannot use a hash unit.
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

    // Takes all 32 bits of the other hash.
    action set_signature() {
        hashed = hash.get({identity.dst_port, identity.src_port, identity.protocol, identity.dst, identity.src,
                           bottleneck});
    }

    // A table, for the same reason as `index_of`; it needs no key.
    table signature_of {
        actions = {
            set_signature;
        }
        const default_action = set_signature();
        size = 1;
    }

    // Turns the hash into a signature.
    action set_lowest_bit() {
        signature = hashed | 1;
    }

    // A separate table: what the hash unit writes can only be changed in a later stage.
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

// The first flow that finds an index free owns it, by its signature. At that moment the flow is new. A flow whose index
// another one owns collides.
control FlowOwner(in flow_index_t index, in bit<32> signature, out bit<1> is_new, inout bit<8> flags) {
    Register<bit<32>, flow_index_t>(FLOW_COUNT) signatures;
    // The register's contents set one bit of the verdict: bit 0 another flow's signature, 1 nothing, 2 its own.
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

    // The index was free, and is this flow's from now on: the control plane is notified.
    action claimed() {
        is_new = 1;
    }

    // The index is another flow's: reports have a flag for this.
    action collide() {
        is_new = 0;
        flags = flags | FLAG_COLLISION;
    }

    // Translates the register's verdict. Tofino 1 writes four bits of it: the others keep what the container held before.
    table judge {
        key = {
            verdict[3:0]: exact @name("verdict");
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

// Counts a packet of a flow and returns the new total: 32 bits, wraps.
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

// Adds to a flow's total and returns it; 0 only reads it: 32 bits, wraps.
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

// Counts a packet of a bottleneck and returns the new total.
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

// Which phase of a row of 2^shift departures is reported: the last one. A draw for each row, compared with the phase, is an
// operation over two stages, which the compiler refuses.
control SamplePosition(in bottleneck_index_t bottleneck, in bit<32> sequence, in bit<32> phase, in settings_t settings,
                       out bit<32> sampled_phase) {
    apply {
        sampled_phase = 0;
    }
}

// The largest depth of a bottleneck so far.
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

// Packets and bytes of a flow. `counted_besides` is subtracted for every packet, so that only frames count.
control FlowCounter(in flow_index_t index)(bit<32> counted_besides) {
    Counter<bit<64>, flow_index_t>(FLOW_COUNT, CounterType_t.PACKETS_AND_BYTES) flows;

    // Counts in the flow's cell.
    action count() {
        flows.count(index, counted_besides);
    }

    // The program's largest memory, more than half of what a stage has: placed as early as possible.
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

// Counts packets by bottleneck and delay bin.
control DelayHistogram(in bottleneck_index_t index, in bit<DELAY_BIN_WIDTH> bin) {
    Counter<bit<32>, bit<HISTOGRAM_WIDTH>>(HISTOGRAM_SIZE, CounterType_t.PACKETS) bins;

    apply {
        bins.count(index ++ bin);
    }
}

// A biased coin: heads with probability threshold / 2^32.
control Bernoulli(in bit<32> threshold, out bit<1> heads) {
    Random<bit<32>>() random;
    bit<32> value;
    bit<32> margin;

    // It is heads.
    action head() {
        heads = 1;
    }

    // value < threshold, as a table: gateways only compare with constants.
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

// Loss in bursts, from the model of Gilbert (1960) and Elliott (1963): a packet is judged by the state that it finds, then the
// state may change. Both are decided for either state before the state is known, so that a single register access is left.
// Chances are in units of 2^-32.
control LossStates(in bottleneck_index_t bottleneck, inout bit<1> lost) {
    // 0 while a bottleneck is in its good state, anything else in its bad one.
    Register<bit<32>, bottleneck_index_t>(BOTTLENECK_COUNT) bad_states;
    Random<bit<32>>() fate_random;
    Random<bit<32>>() move_random;
    bit<32> fate;
    bit<32> move;
    bit<32> enter;
    bit<32> stay;
    bit<32> lose_in_good;
    bit<32> lose_in_bad;
    bit<32> found;

    // Reads the state that the packet finds, and leaves the next one: what was decided for the one found.
    RegisterAction<bit<32>, bottleneck_index_t, bit<32>>(bad_states) change = {
        void apply(inout bit<32> stored, out bit<32> before) {
            before = stored;
            if (stored == 0) {
                stored = enter;
            } else {
                stored = stay;
            }
        }
    };

    // The chances that the bad state follows, on the good one and on itself, and that a packet is lost in each. That of the
    // bad state has one added, so that it can lose everything.
    action set_chances(bit<32> enter_chance, bit<32> stay_chance, bit<32> good_chance, bit<32> bad_chance) {
        enter = enter_chance;
        stay = stay_chance;
        lose_in_good = good_chance;
        lose_in_bad = bad_chance;
    }

    // The chances of each bottleneck. One without an entry stays in its good state, which loses nothing.
    table loss_states {
        key = {
            bottleneck: exact @name("bottleneck");
        }
        actions = {
            set_chances;
        }
        const default_action = set_chances(0, 0, 0, 0);
        size = BOTTLENECK_COUNT;
    }

    // The state that the packet found loses it.
    action lose() {
        lost = 1;
    }

    // Which of the two draws counts. In the good state 0 is no loss, in the bad one anything else.
    table loss_verdict {
        key = {
            found: ternary;
            lose_in_good: ternary;
            fate: ternary;
        }
        actions = {
            lose;
            NoAction;
        }
        const default_action = NoAction();
        size = 3;
        const entries = {
            (0, 0, _): NoAction();
            (0, _, _): lose();
            (_, _, 0): lose();
        }
    }

    apply {
        loss_states.apply();
        fate = fate_random.get();
        move = move_random.get();
        // By how much a chance exceeds its draw: 0 if it does not. Of the bad state's loss it is by how much the draw does.
        enter = enter |-| move;
        stay = stay |-| move;
        lose_in_good = lose_in_good |-| fate;
        fate = fate |-| lose_in_bad;
        found = change.execute(bottleneck);
        loss_verdict.apply();
    }
}

#endif
