// Which AQM manages the queues of a bottleneck, and with which parameters: entries in the three tables of this file.
// SPDX-License-Identifier: Apache-2.0
#ifndef NARROWS_MANAGEMENT_P4
#define NARROWS_MANAGEMENT_P4

// Before the queue: chooses the queue that a packet waits in, and applies AQMs that decide on arrival.
control ManageEnqueue(inout flow_state_t flow, in standard_metadata_t standard, out bit<1> low_queue,
                      out bit<1> dropped) {
    // Packets of a flow that an AQM dropped on arrival.
    RunningTotal() flow_enqueue_drops;
    // The same in packets and bytes for the control plane.
    FlowCounter(COUNTED_BEFORE_QUEUE) enqueue_drop_counter;
    EcnCapable() ecn;
    PieEnqueue() pie_enqueue;
    RedEnqueue() red_enqueue;
    BlueEnqueue() blue_enqueue;
    bit<1> capable;
    bit<1> low_latency;
    bit<2> verdict;
    pie_t pie_settings;
    red_t red_settings;
    blue_t blue_settings;

    // One queue, with an AQM that decides at departure or with none.
    action one_queue() {
        flow.queue = 0;
    }

    // One queue, and PIE before it.
    action pie_at_enqueue(bit<32> target, bit<32> mtu, bit<32> limit_bytes, bit<32> limit_packets, bit<1> ecn_marks) {
        flow.queue = 0;
        pie_settings = {target, mtu, limit_bytes, limit_packets, ecn_marks};
    }

    // One queue, and RED before it.
    action red(bit<1> counts_packets, bit<8> weight, bit<64> low, bit<64> high, bit<64> slope, bit<64> halvings,
               bit<48> forgotten, bit<1> ecn_marks, bit<1> harddrop, bit<1> nodrop) {
        flow.queue = 0;
        red_settings = {counts_packets, weight, low, high, slope, halvings, forgotten, ecn_marks, harddrop, nodrop};
    }

    // One queue, and BLUE before it.
    action blue(bit<32> limit_bytes, bit<32> limit_packets, bit<32> increment, bit<32> decrement, bit<32> freeze,
                bit<1> ecn_marks) {
        flow.queue = 0;
        blue_settings = {limit_bytes, limit_packets, increment, decrement, freeze, ecn_marks};
    }

    // Low-latency packets (ECT(1) and CE) have a queue of their own.
    action two_queues() {}

    // Fair queues, as many as the mask has values: the last bits of a flow's index choose its queue.
    action fair_queues(bit<16> mask) {
        flow.queue = (bit<16>)flow.index & mask;
    }

    // What a bottleneck does with a packet that arrives.
    table enqueue_aqm {
        key = {
            flow.bottleneck: exact @name("bottleneck");
        }
        actions = {
            one_queue;
            pie_at_enqueue;
            red;
            blue;
            two_queues;
            fair_queues;
        }
        const default_action = one_queue();
        size = BOTTLENECK_COUNT;
    }

    apply {
        low_queue = 0;
        dropped = 0;
        verdict = VERDICT_PASS;
        pie_settings = {0, 0, 0, 0, 0};
        red_settings = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
        blue_settings = {0, 0, 0, 0, 0, 0};
        // An AQM's settings are parameters of its action, so that packets of other AQMs do not pay for them.
        switch (enqueue_aqm.apply().action_run) {
            pie_at_enqueue: {
                ecn.apply(flow.flags, capable, low_latency);
                pie_enqueue.apply(flow.bottleneck, pie_settings, standard.packet_length, capable, verdict);
            }
            red: {
                ecn.apply(flow.flags, capable, low_latency);
                red_enqueue.apply(flow.bottleneck, red_settings, standard.ingress_global_timestamp, capable, verdict);
            }
            blue: {
                ecn.apply(flow.flags, capable, low_latency);
                blue_enqueue.apply(flow.bottleneck, blue_settings, standard.packet_length,
                                   standard.ingress_global_timestamp, capable, verdict);
            }
            two_queues: {
                ecn.apply(flow.flags, capable, low_latency);
                flow.queue = 15w0 ++ low_latency;
                low_queue = low_latency;
            }
        }
        flow.mark = 0;
        if (verdict == VERDICT_MARK) {
            flow.mark = 1;
        }
        if (verdict == VERDICT_DROP) {
            dropped = 1;
            enqueue_drop_counter.apply(flow.index);
        }
        flow_enqueue_drops.apply(flow.index, (bit<32>)dropped, flow.aqm_drops);
    }
}

// No packet is marked for its delay alone.
const bit<32> NO_THRESHOLD = 0xffffffff;

// After the queue, before the packet takes any of the link's time: AQMs that decide at departure.
// `found` and `left`: packets in the queue that this one left (codel.p4).
control ManageDequeue(inout flow_state_t flow, in observation_t seen, in bit<19> found,
                      in bit<19> left, out bit<1> dropped) {
    // Packets of a flow that an AQM dropped at departure.
    RunningTotal() flow_dequeue_drops;
    // The same in packets and bytes for the control plane.
    FlowCounter(COUNTED_BEHIND_QUEUE) dequeue_drop_counter;
    EcnCapable() ecn;
    CoDel() codel_dequeue;
    Pi2Dequeue() pi2_dequeue;
    PieDelay() pie_delay;
    bit<1> capable;
    bit<1> low_latency;
    bit<1> low_queue;
    bit<2> verdict;
    bit<32> drops;
    codel_t codel_settings;
    pi2_t pi2_settings;
    bit<32> ce_threshold;
    bit<1> ce_low_latency_only;

    // Nothing is decided at departure.
    action no_aqm() {
        ce_threshold = NO_THRESHOLD;
    }

    // PIE decides on arrival, but needs the delay of packets that depart.
    action pie_at_dequeue() {
        ce_threshold = NO_THRESHOLD;
    }

    // CoDel for each queue, which also marks above a threshold of delay (2^32-1: none), for all flows or only for L4S.
    action codel(bit<32> target, bit<32> interval, bit<32> mtu, bit<1> ecn_marks, bit<1> shares_link,
                 bit<32> threshold, bit<1> low_latency_only) {
        codel_settings = {target, interval, mtu, ecn_marks, shares_link};
        ce_threshold = threshold;
        ce_low_latency_only = low_latency_only;
    }

    // DualPI2, or PI2 if all packets wait in one queue.
    action pi2_at_dequeue(bit<32> step, bit<8> coupling, bit<32> mtu, bit<1> ecn_marks) {
        ce_threshold = NO_THRESHOLD;
        pi2_settings = {step, coupling, mtu, ecn_marks};
    }

    // Marks above a threshold of delay, for all flows or only for L4S.
    action step(bit<32> threshold, bit<1> low_latency_only) {
        ce_threshold = threshold;
        ce_low_latency_only = low_latency_only;
    }

    // What a bottleneck does with a packet that departs.
    table dequeue_aqm {
        key = {
            flow.bottleneck: exact @name("bottleneck");
        }
        actions = {
            no_aqm;
            codel;
            pi2_at_dequeue;
            pie_at_dequeue;
            step;
        }
        const default_action = no_aqm();
        size = BOTTLENECK_COUNT;
    }

    apply {
        verdict = VERDICT_PASS;
        dropped = 0;
        codel_settings = {0, 0, 0, 0, 0};
        pi2_settings = {0, 0, 0, 0};
        ce_low_latency_only = 0;
        switch (dequeue_aqm.apply().action_run) {
            codel: {
                codel_dequeue.apply(flow.flags, flow.bottleneck, (link_queue_t)flow.queue, codel_settings, seen.timestamp,
                                    seen.queue_delay, seen.dequeue_depth, found, left, verdict);
            }
            pi2_at_dequeue: {
                ecn.apply(flow.flags, capable, low_latency);
                low_queue = flow.queue[0:0];
                pi2_dequeue.apply(flow.bottleneck, pi2_settings, low_queue, seen.queue_delay, seen.dequeue_depth,
                                  capable, verdict);
            }
            pie_at_dequeue: {
                pie_delay.apply(flow.bottleneck, seen.queue_delay, seen.dequeue_depth);
            }
        }
        if (verdict == VERDICT_MARK) {
            flow.mark = 1;
        }
        if (ce_threshold != NO_THRESHOLD && seen.queue_delay > (bit<48>)ce_threshold) {
            ecn.apply(flow.flags, capable, low_latency);
            if (low_latency == 1 || ce_low_latency_only == 0) {
                flow.mark = 1;
            }
        }
        if (verdict == VERDICT_DROP) {
            dropped = 1;
            dequeue_drop_counter.apply(flow.index);
        }
        flow_dequeue_drops.apply(flow.index, (bit<32>)dropped, drops);
        flow.aqm_drops = flow.aqm_drops + drops;
    }
}

// What an AQM does at regular times, whether packets arrive or not.
control ManageUpdate(in bottleneck_index_t bottleneck, in bit<48> now) {
    PieUpdate() pie_update;
    Pi2Update() pi2_update;
    pie_update_t pie_settings;
    pi2_update_t pi2_settings;

    // A bottleneck that PIE manages.
    action pie_at_update(bit<32> target, bit<32> tupdate, bit<32> alpha, bit<32> beta) {
        pie_settings = {target, tupdate, alpha, beta};
    }

    // A bottleneck that PI2 or DualPI2 manages.
    action pi2_at_update(bit<32> target, bit<32> alpha, bit<32> beta) {
        pi2_settings = {target, alpha, beta};
    }

    // What a bottleneck does at those times.
    table update_aqm {
        key = {
            bottleneck: exact @name("bottleneck");
        }
        actions = {
            pie_at_update;
            pi2_at_update;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = BOTTLENECK_COUNT;
    }

    apply {
        pie_settings = {0, 0, 0, 0};
        pi2_settings = {0, 0, 0};
        switch (update_aqm.apply().action_run) {
            pie_at_update: {
                pie_update.apply(bottleneck, pie_settings);
            }
            pi2_at_update: {
                pi2_update.apply(bottleneck, pi2_settings, now);
            }
        }
    }
}

#endif
