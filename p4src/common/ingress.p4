// The bottleneck before its queue: which flow a packet belongs to, whether emulation loses it, and how many came before it.
// `share`: this pipe's share of the flow indices (flow_share.p4).
// FlowIndex, FlowSignature, FlowOwner, PacketTotal, RunningTotal, FlowCounter, Bernoulli, LossStates and LossPattern belong to
// the target (primitives.p4); they have the same names and signatures on every architecture.
// SPDX-License-Identifier: Apache-2.0
#ifndef NARROWS_INGRESS_P4
#define NARROWS_INGRESS_P4

control BottleneckIngress(in headers_t hdr, in flow_identity_t identity, in bit<8> share, inout flow_state_t flow,
                          out bit<1> lost) {
    // Where a flow's state is kept.
    FlowIndex() flow_index;
    // Distinguishes flows that share an index.
    FlowSignature() flow_signature;
    // Remembers which flow owns an index, so that a hash collision is reported instead of silently merging two flows.
    FlowOwner() flow_owner;
    // Decides which packets are lost.
    Bernoulli() dice;
    // Packets lost by loss emulation; drops of the queue are not among them.
    RunningTotal() flow_loss_drops;
    // Packets offered to the queue: minus flow_departures they are the exact drops, though no drop is ever observed.
    PacketTotal() flow_arrivals;
    // The same in packets and bytes, for the control plane, which can read counters on every target.
    FlowCounter(COUNTED_BEFORE_QUEUE) loss_counter;
    FlowCounter(COUNTED_BEFORE_QUEUE) arrival_counter;
    bit<32> loss_threshold;

    // For a bottleneck that loses packets.
    action set_loss(bit<32> threshold) {
        loss_threshold = threshold;
    }

    // For a bottleneck that loses none.
    action keep() {
        loss_threshold = 0;
    }

    // Loss in bursts, from a model of two states.
    LossStates() states;
#ifdef LOSS_PATTERNS
    // Loss by position, from a recording. Not on Tofino, whose TCAM has room for few ranges of positions.
    LossPattern() pattern;
    bit<2> loss_model = LOSS_INDEPENDENT;

    // For a bottleneck whose losses depend on earlier packets.
    action set_loss_model(bit<2> model) {
        loss_threshold = 0;
        loss_model = model;
    }
#endif

    // How a bottleneck loses packets: each with probability threshold / 2^32, independently of all others, or (where there
    // is a choice of models) depending on earlier packets.
    table loss {
        key = {
            flow.bottleneck: exact @name("bottleneck");
        }
        actions = {
            set_loss;
#ifdef LOSS_PATTERNS
            set_loss_model;
#endif
            @defaultonly keep;
        }
        const default_action = keep();
        size = BOTTLENECK_COUNT;
    }

    apply {
        flow.flags = share | identity.flags;
        flow_index.apply(identity, flow.bottleneck, share, flow.index);
        flow_signature.apply(identity, flow.bottleneck, flow.signature);
        flow_owner.apply(flow.index, flow.signature, flow.is_new, flow.flags);

        loss.apply();
        dice.apply(loss_threshold, lost);
#ifdef LOSS_PATTERNS
        if (loss_model == LOSS_BY_STATE) {
            states.apply(flow.bottleneck, lost);
        } else if (loss_model == LOSS_BY_PATTERN) {
            pattern.apply(flow.bottleneck, lost);
        }
#else
        states.apply(flow.bottleneck, lost);
#endif
        flow_loss_drops.apply(flow.index, (bit<32>)lost, flow.loss_drops);
        if (lost == 1) {
            loss_counter.apply(flow.index);
        } else {
            flow_arrivals.apply(flow.index, flow.arrivals);
            arrival_counter.apply(flow.index);
        }
    }
}

#endif
