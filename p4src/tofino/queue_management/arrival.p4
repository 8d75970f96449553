// AQMs that pick packets on arrival, with a probability that the control plane computes: PI2, PIE and DualPI2.
// SPDX-License-Identifier: Apache-2.0
#ifndef NARROWS_ARRIVAL_P4
#define NARROWS_ARRIVAL_P4

// DualPI2 (RFC 9332) has two queues: packets with ECT(1) or CE, whose ECN field has its last bit set, wait in the second one.
control ArrivalQueue(in bottleneck_index_t bottleneck, in bit<8> arrival_flags, inout queue_t queue) {
    // It waits in another queue of the port than the packets of its bottleneck usually do.
    action wait_in(queue_t number) {
        queue = number;
    }

    // Which bottlenecks have a queue for L4S, and which queue of their port that is.
    table arrival_queue {
        key = {
            bottleneck: exact @name("bottleneck");
            arrival_flags[3:3]: exact @name("low_latency");
        }
        actions = {
            wait_in;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = BOTTLENECK_COUNT;
    }

    apply {
        arrival_queue.apply();
    }
}

// Ingress does not know the depth of a queue. The control plane reads the delays of the latest departures (`LatestDelay`),
// and writes what follows from them into `enqueue_aqm`.
control ManageEnqueue(in bit<8> arrival_flags, inout flow_state_t flow, inout bit<1> dropped) {
    // Packets of a flow that an AQM dropped on arrival.
    RunningTotal() flow_enqueue_drops;
    // The same of all flows, in packets and bytes for the control plane.
    Counter<bit<64>, bottleneck_index_t>(BOTTLENECK_COUNT, CounterType_t.PACKETS_AND_BYTES) enqueue_drops;
    Random<bit<32>>() random;
    bit<32> value;
    // A probability, in units of 2^-32, and then by how much it is above the value that was drawn: of classic packets, and of
    // those with ECT(1) or CE. In place, as containers of 32 bits are few.
    bit<32> margin;
    bit<32> low_margin;
    bit<1> marks;
    bit<1> marks_rest;
    bit<32> increment;

    // An AQM of one queue; it marks what allows it, or drops all that it picks.
    action pick(bit<32> probability, bit<1> ecn_marks) {
        margin = probability;
        low_margin = probability;
        marks = ecn_marks;
        marks_rest = 0;
    }

    // DualPI2: each queue has a probability of its own. It marks what allows it, and drops the rest.
    action couple(bit<32> classic_probability, bit<32> low_probability) {
        margin = classic_probability;
        low_margin = low_probability;
        marks = 1;
        marks_rest = 0;
    }

    // DualPI2 whose coupled probability is above 1 (RFC 9332, section 4.2): both queues drop, and what the low-latency queue
    // does not drop it marks.
    action couple_overloaded(bit<32> probability) {
        margin = probability;
        low_margin = probability;
        marks = 0;
        marks_rest = 1;
    }

    // No AQM decides on arrival.
    action pick_nothing() {
        margin = 0;
        low_margin = 0;
        marks = 0;
        marks_rest = 0;
    }

    // What a bottleneck does with an arriving packet.
    table enqueue_aqm {
        key = {
            flow.bottleneck: exact @name("bottleneck");
        }
        actions = {
            pick;
            couple;
            couple_overloaded;
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

    // value < probability, as in `Bernoulli`; of which queue, and whether marks are allowed, is in the ECN bits of the flags.
    // What emulation has lost already is not picked again, and what is marked already is not marked again. Drops are an
    // entry: a counter needs one.
    table arrival_verdict {
        key = {
            margin: ternary @name("margin");
            low_margin: ternary @name("low_margin");
            dropped: ternary @name("lost");
            marks: ternary @name("marks");
            marks_rest: ternary @name("marks_rest");
            arrival_flags: ternary @name("flags");
        }
        actions = {
            pass;
            mark;
            drop;
        }
        const default_action = pass();
        const entries = {
            (_, _, 1, _, _, _): pass();
            (0, _, _, _, _, 0x00 &&& 0x08): pass();
            (_, 0, _, _, 0, 0x08 &&& 0x08): pass();
            (_, 0, _, _, _, 0x18 &&& 0x18): pass();
            (_, 0, _, _, _, 0x08 &&& 0x08): mark();
            (_, _, _, 1, _, 0x18 &&& 0x18): pass();
            (_, _, _, 1, _, 0x08 &&& 0x08): mark();
            (_, _, _, 1, _, 0x10 &&& 0x10): mark();
            (_, _, _, _, _, _): drop();
        }
    }

    apply {
        enqueue_aqm.apply();
        value = random.get();
        margin = margin |-| value;
        low_margin = low_margin |-| value;
        arrival_verdict.apply();
        flow_enqueue_drops.apply(flow.index, increment, flow.aqm_drops);
    }
}

#endif
