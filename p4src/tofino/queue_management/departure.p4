// AQMs that decide at departure: step, also that of DualPI2, by the time that a packet waited, RED by the average depth. Marks
// that were decided on arrival are made here, too.
// SPDX-License-Identifier: Apache-2.0
#ifndef NARROWS_DEPARTURE_P4
#define NARROWS_DEPARTURE_P4

// No delay above which a packet is marked.
const bit<32> NO_THRESHOLD = 0xffffffff;
const bit<8> PICKED = 1;
const bit<8> NOT_PICKED = 0;

// Which of its bottleneck's queues a packet waited in, also for its mirrored copy: neither carries it, but both have the ECN
// field of the arrival, which decided it (`ArrivalQueue`).
control DepartureQueue(in bottleneck_index_t bottleneck, in bit<8> flags, out bit<16> queue) {
    // In the only one, or in the one for classic packets.
    action first() {
        queue = 0;
    }

    // In the one for L4S.
    action second() {
        queue = 1;
    }

    // Which bottlenecks have a queue for L4S.
    table departure_queue {
        key = {
            bottleneck: exact @name("bottleneck");
            flags[3:3]: exact @name("low_latency");
        }
        actions = {
            second;
            @defaultonly first;
        }
        const default_action = first();
        size = BOTTLENECK_COUNT;
    }

    apply {
        departure_queue.apply();
    }
}

#define QUEUE_INDEX_WIDTH (BOTTLENECK_WIDTH + 1)
typedef bit<QUEUE_INDEX_WIDTH> queue_index_t;

// What the control plane knows about the delay of a queue: how long the packet waited that departed last, and how many have
// departed, which tells whether there was one since it looked. In one register, so that one reading has both.
struct departures_t {
    bit<32> delay;
    bit<32> packets;
}

// There are cells for two queues of each bottleneck, of which most have one.
control LatestDelay(in bottleneck_index_t bottleneck, in bit<16> queue, in bit<32> delay) {
    Register<departures_t, queue_index_t>(1 << QUEUE_INDEX_WIDTH) departures;
    RegisterAction<departures_t, queue_index_t, bit<32>>(departures) keep = {
        void apply(inout departures_t latest) {
            latest.delay = delay;
            latest.packets = latest.packets + 1;
        }
    };

    apply {
        keep.execute(bottleneck ++ queue[0:0]);
    }
}

#if __TARGET_TOFINO__ == 2
// Containers of 16 and 32 bits are nearly all taken, of 8 bits few: the compiler does not find these by itself.
@pa_container_size("egress", "hdr.frame.ipv6.src", 8)
#endif
// A mark here costs the link nothing. A packet that is dropped has had its time on the link: egress runs behind the shaper.
// `kind`: what the packet's mirrored copy is to be read as (narrows.p4).
control ManageDequeue(inout flow_state_t flow, in bit<32> queue_delay, in bit<19> depth, out bit<2> kind,
                      out bit<1> dropped) {
    // RED's average depth of a queue, and its picks by it. A sample is what waits when a packet departs.
    Wred<bit<19>, bottleneck_index_t>(BOTTLENECK_COUNT, PICKED, NOT_PICKED) wred;
    // Packets of a flow that an AQM dropped at departure.
    RunningTotal() flow_dequeue_drops;
    // The same of all flows, in packets and bytes for the control plane.
    Counter<bit<64>, bottleneck_index_t>(BOTTLENECK_COUNT, CounterType_t.PACKETS_AND_BYTES) dequeue_drops;
    LatestDelay() latest_delay;
    bit<32> longest;
    bit<32> lateness;
    bit<8> picked;
    bit<1> l4s_only;
    bit<1> marks;
    bit<1> spares;
    bit<32> increment;
    bit<32> drops;

    // Nothing is decided at departure, and nothing was on arrival.
    action no_aqm() {
        kind = KIND_MIRROR;
        longest = NO_THRESHOLD;
        picked = NOT_PICKED;
        l4s_only = 0;
        marks = 0;
        spares = 1;
    }

    // An AQM has decided on arrival.
    action decided_on_arrival() {
        kind = KIND_MANAGED_MIRROR;
        longest = NO_THRESHOLD;
        picked = NOT_PICKED;
        l4s_only = 0;
        marks = 0;
        spares = 1;
    }

    // DualPI2: it has decided on arrival, and marks L4S above a delay.
    action coupled(bit<32> threshold) {
        kind = KIND_MANAGED_MIRROR;
        longest = threshold;
        picked = NOT_PICKED;
        l4s_only = 1;
        marks = 1;
        spares = 1;
    }

    // A mark above a delay, of all flows or of L4S alone.
    action step(bit<32> threshold, bit<1> low_latency_only) {
        kind = KIND_MIRROR;
        longest = threshold;
        picked = NOT_PICKED;
        l4s_only = low_latency_only;
        marks = 1;
        spares = 1;
    }

    // RED with the settings that are at `index` in `wred`: it marks or drops what it picks; with `nodrop` it spares what it
    // cannot mark.
    action red(bottleneck_index_t index, bit<1> ecn_marks, bit<1> nodrop) {
        kind = KIND_MANAGED_MIRROR;
        longest = NO_THRESHOLD;
        picked = wred.execute(depth, index);
        l4s_only = 0;
        marks = ecn_marks;
        spares = nodrop;
    }

    // What a bottleneck does with a departing packet.
    table dequeue_aqm {
        key = {
            flow.bottleneck: exact @name("bottleneck");
        }
        actions = {
            decided_on_arrival;
            coupled;
            step;
            red;
            @defaultonly no_aqm;
        }
        const default_action = no_aqm();
        size = BOTTLENECK_COUNT;
    }

    // It goes on as it is.
    action pass() {
        flow.mark = 0;
        dropped = 0;
        increment = 0;
    }

    // It is marked where its sender allows it.
    action mark() {
        flow.mark = 1;
        dropped = 0;
        increment = 0;
    }

    // It goes no further.
    action drop() {
        flow.mark = 0;
        dropped = 1;
        increment = 1;
        dequeue_drops.count(flow.bottleneck, COUNTED_BEHIND_QUEUE);
    }

    // A mark that was decided on arrival is in the flags already, as is the ECN field of the arrival: what came with CE passes,
    // and what allows no marks passes where it is spared. Drops are an entry: a counter needs one.
    table departure_verdict {
        key = {
            flow.flags: ternary @name("flags");
            lateness: ternary @name("lateness");
            picked: ternary @name("picked");
            marks: ternary @name("marks");
            l4s_only: ternary @name("l4s_only");
            spares: ternary @name("spares");
        }
        actions = {
            pass;
            mark;
            drop;
        }
        const default_action = pass();
        const entries = {
            (0x01 &&& 0x01, _, _, _, _, _): mark();
            (_, 0, NOT_PICKED, _, _, _): pass();
            (0x18 &&& 0x18, _, _, 1, _, _): pass();
            (0x08 &&& 0x08, _, _, 1, _, _): mark();
            (0x10 &&& 0x10, _, _, 1, 0, _): mark();
            (_, _, _, _, _, 1): pass();
            (_, _, _, _, _, _): drop();
        }
    }

    apply {
        dequeue_aqm.apply();
        lateness = queue_delay |-| longest;
        departure_verdict.apply();
        flow_dequeue_drops.apply(flow.index, increment, drops);
        // A bottleneck has an AQM before the queue or one behind it, or emulated losses: two of the three are 0.
        flow.loss_drops = flow.loss_drops | drops;
        latest_delay.apply(flow.bottleneck, flow.queue, queue_delay);
    }
}

#endif
