// Laws that pick packets on arrival, with a probability that the control plane computes: PI2 and PIE.
// SPDX-License-Identifier: Apache-2.0
#ifndef NARROWS_ARRIVAL_P4
#define NARROWS_ARRIVAL_P4

// Ingress does not know the depth of a queue. The control plane reads the delay of the latest departure (`LatestDelay`),
// and writes what follows from it into `enqueue_law`.
control ManageEnqueue(in bit<8> arrival_flags, inout flow_state_t flow, inout bit<1> dropped) {
    // Packets of a flow that a law dropped on arrival.
    RunningTotal() flow_enqueue_drops;
    // The same of all flows, in packets and bytes for the control plane.
    Counter<bit<64>, bottleneck_index_t>(BOTTLENECK_COUNT, CounterType_t.PACKETS_AND_BYTES) enqueue_drops;
    Random<bit<32>>() random;
    bit<32> threshold;
    bit<32> value;
    bit<32> margin;
    bit<1> marks;
    bit<32> increment;

    // A law that picks with probability threshold / 2^32; it marks what allows it, or drops all that it picks.
    action pick(bit<32> probability, bit<1> ecn_marks) {
        threshold = probability;
        marks = ecn_marks;
    }

    // No law decides on arrival.
    action pick_nothing() {
        threshold = 0;
        marks = 0;
    }

    // What a bottleneck does with an arriving packet.
    table enqueue_law {
        key = {
            flow.bottleneck: exact @name("bottleneck");
        }
        actions = {
            pick;
            @defaultonly pick_nothing;
        }
        const default_action = pick_nothing();
        size = BOTTLENECK_COUNT;
    }

    // It waits, as it is.
    action pass() {
        increment = 0;
    }

    // It waits, and is marked behind the queue: its flags say so already.
    action mark() {
        flow.flags = flow.flags | FLAG_CE_MARKED;
        increment = 0;
    }

    // It goes no further.
    action drop() {
        dropped = 1;
        increment = 1;
        enqueue_drops.count(flow.bottleneck, COUNTED_BEFORE_QUEUE);
    }

    // value < threshold, as in `Bernoulli`; whether marks are allowed, and asked for, is in the ECN bits of the flags. What
    // emulation has lost already is not picked again, and what is marked already is not marked again. Drops are an entry:
    // a counter needs one.
    table arrival_verdict {
        key = {
            margin: ternary @name("margin");
            dropped: ternary @name("lost");
            marks: ternary @name("marks");
            arrival_flags: ternary @name("flags");
        }
        actions = {
            pass;
            mark;
            drop;
        }
        const default_action = pass();
        const entries = {
            (0, _, _, _): pass();
            (_, 1, _, _): pass();
            (_, _, 1, 0x18 &&& 0x18): pass();
            (_, _, 1, 0x08 &&& 0x08): mark();
            (_, _, 1, 0x10 &&& 0x10): mark();
            (_, _, _, _): drop();
        }
    }

    apply {
        enqueue_law.apply();
        value = random.get();
        margin = threshold |-| value;
        arrival_verdict.apply();
        flow_enqueue_drops.apply(flow.index, increment, flow.aqm_drops);
    }
}

#endif
