// The stateful parts on v1model (BMv2 and the softswitch). tofino/primitives.p4 has their counterparts.
// SPDX-License-Identifier: Apache-2.0
#ifndef NARROWS_PRIMITIVES_P4
#define NARROWS_PRIMITIVES_P4

// Flow index and signature: two hashes of bottleneck and 5-tuple that differ by the order of the fields. Both are CRC-32:
// CRC-16 would map flows whose addresses and ports count up together to half as many indices.
control FlowIndex(in flow_identity_t identity, in bottleneck_index_t bottleneck, in bit<8> share,
                  out flow_index_t index) {
    FlowShare() flow_share;

    apply {
        hash(index, HashAlgorithm.crc32, 32w0,
             {2w0, bottleneck, identity.src, identity.dst, identity.protocol, identity.src_port, identity.dst_port},
             (bit<32>)FLOW_COUNT);
        if (share != 0) {
            flow_share.apply(share, index);
        }
    }
}

// Signature 0 means "no owner yet", so the range does not include it.
control FlowSignature(in flow_identity_t identity, in bottleneck_index_t bottleneck, out bit<32> signature) {
    apply {
        hash(signature, HashAlgorithm.crc32, 32w1,
             {identity.dst_port, identity.src_port, identity.protocol, identity.dst, identity.src, 2w0, bottleneck},
             32w0xffffffff);
    }
}

// The first flow that finds an index free owns it, by its signature. At that moment the flow is new. A flow whose index
// another one owns collides.
control FlowOwner(in flow_index_t index, in bit<32> signature, out bit<1> is_new, inout bit<8> flags) {
    register<bit<32>>(FLOW_COUNT) signatures;
    bit<32> owner;

    apply {
        is_new = 0;
        @atomic {
            signatures.read(owner, (bit<32>)index);
            if (owner == 0) {
                signatures.write((bit<32>)index, signature);
            }
        }
        if (owner == 0) {
            is_new = 1;
        } else if (owner != signature) {
            flags = flags | FLAG_COLLISION;
        }
    }
}

// Counts a packet of a flow and returns the new total: 32 bits, wraps.
control PacketTotal(in flow_index_t index, out bit<32> total) {
    register<bit<32>>(FLOW_COUNT) totals;

    apply {
        @atomic {
            totals.read(total, (bit<32>)index);
            total = total + 1;
            totals.write((bit<32>)index, total);
        }
    }
}

// Adds to a flow's total and returns it; 0 only reads it: 32 bits, wraps.
control RunningTotal(in flow_index_t index, in bit<32> increment, out bit<32> total) {
    register<bit<32>>(FLOW_COUNT) totals;

    apply {
        @atomic {
            totals.read(total, (bit<32>)index);
            total = total + increment;
            totals.write((bit<32>)index, total);
        }
    }
}

// Counts a packet of a bottleneck and returns the new total.
control BottleneckTotal(in bottleneck_index_t index, out bit<32> total) {
    register<bit<32>>(BOTTLENECK_COUNT) totals;

    apply {
        @atomic {
            totals.read(total, (bit<32>)index);
            total = total + 1;
            totals.write((bit<32>)index, total);
        }
    }
}

// Which phase of a row of 2^shift departures is reported: from a number that the row's and the seed are mixed into (the
// finalizer of MurmurHash3, Appleby). Not by a CRC, which would only be shifted by the seed, and is in step with traffic
// of which every 2^n-th packet is alike. Not by `random` either: to sample would change what is lost.
control SamplePosition(in bottleneck_index_t bottleneck, in bit<32> sequence, in bit<32> phase, in settings_t settings,
                       out bit<32> sampled_phase) {
    apply {
        sampled_phase = 0;
        if (settings.sample_mask != 0) {
            sampled_phase = (sequence - 1) & ~settings.sample_mask;
            sampled_phase = (sampled_phase ^ (sampled_phase >> 16)) * 0x85ebca6b + settings.sample_seed;
            sampled_phase = (sampled_phase ^ (sampled_phase >> 13)) * 0xc2b2ae35;
            sampled_phase = (sampled_phase ^ (sampled_phase >> 16)) & settings.sample_mask;
        }
    }
}

// The largest depth of a bottleneck so far.
control HighWatermark(in bottleneck_index_t index, in bit<32> depth) {
    register<bit<32>>(BOTTLENECK_COUNT) depths;
    bit<32> highest;

    apply {
        @atomic {
            depths.read(highest, (bit<32>)index);
            if (depth > highest) {
                depths.write((bit<32>)index, depth);
            }
        }
    }
}

// Packets and bytes of a flow. `counted_besides` is 0 on v1model: only frames are counted.
control FlowCounter(in flow_index_t index)(bit<32> counted_besides) {
    counter(FLOW_COUNT, CounterType.packets_and_bytes) flows;

    apply {
        flows.count((bit<32>)index);
    }
}

// Counts packets by bottleneck and delay bin.
control DelayHistogram(in bottleneck_index_t index, in bit<DELAY_BIN_WIDTH> bin) {
    counter(HISTOGRAM_SIZE, CounterType.packets) bins;

    apply {
        bins.count((bit<32>)(index ++ bin));
    }
}

// A biased coin: heads with probability threshold / 2^32.
control Bernoulli(in bit<32> threshold, out bit<1> heads) {
    bit<32> value;

    apply {
        heads = 0;
        if (threshold != 0) {
            random(value, 32w0, 32w0xffffffff);
            if (value < threshold) {
                heads = 1;
            }
        }
    }
}

// Loss in bursts (Gilbert 1960, Elliott 1963): the current state decides about a packet, then the state may change.
control LossStates(in bottleneck_index_t bottleneck, inout bit<1> lost) {
    // Which bottlenecks are in their bad state.
    register<bit<1>>(BOTTLENECK_COUNT) bad_states;
    bit<1> is_bad;
    bit<32> fate;
    bit<32> move;
    bit<33> loss_chance;
    bit<33> move_chance;

    // The probabilities that a packet is lost and that the state changes, in units of 2^-32; 2^32 is certain.
    action set_chances(bit<33> loss, bit<33> leave) {
        loss_chance = loss;
        move_chance = leave;
    }

    // The probabilities in each state of a bottleneck.
    table loss_states {
        key = {
            bottleneck: exact @name("bottleneck");
            is_bad: exact @name("is_bad");
        }
        actions = {
            set_chances;
        }
        const default_action = set_chances(0, 0);
        size = 2 * BOTTLENECK_COUNT;
    }

    apply {
        random(fate, 32w0, 32w0xffffffff);
        random(move, 32w0, 32w0xffffffff);
        @atomic {
            bad_states.read(is_bad, (bit<32>)bottleneck);
            loss_states.apply();
            if ((bit<33>)move < move_chance) {
                bad_states.write((bit<32>)bottleneck, is_bad ^ 1);
            }
        }
        if ((bit<33>)fate < loss_chance) {
            lost = 1;
        }
    }
}

// Loss by position in a pattern of packets, which may repeat.
control LossPattern(in bottleneck_index_t bottleneck, out bit<1> lost) {
    // The position of each bottleneck's next packet.
    register<bit<32>>(BOTTLENECK_COUNT) positions;
    bit<32> position;
    bit<32> following;
    bit<32> length;

    // The pattern begins again after this many packets; 0: never.
    action set_length(bit<32> packets) {
        length = packets;
    }

    // The length of each bottleneck's pattern.
    table loss_pattern {
        key = {
            bottleneck: exact @name("bottleneck");
        }
        actions = {
            set_length;
        }
        const default_action = set_length(0);
        size = BOTTLENECK_COUNT;
    }

    // A packet at one of these positions is lost.
    action lose() {
        lost = 1;
    }

    // For each bottleneck, the runs of positions at which packets are lost.
    table lost_positions {
        key = {
            bottleneck: exact @name("bottleneck");
            position: range @name("position");
        }
        actions = {
            lose;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = LOST_RUNS;
    }

    apply {
        lost = 0;
        loss_pattern.apply();
        @atomic {
            positions.read(position, (bit<32>)bottleneck);
            following = position + 1;
            if (following == length) {
                following = 0;
            } else if (following == 0) {
                // A pattern that does not repeat is over: the position stays at its largest value.
                following = position;
            }
            positions.write((bit<32>)bottleneck, following);
        }
        lost_positions.apply();
    }
}

#endif
