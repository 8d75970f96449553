// What ingress and egress know about a packet.
// SPDX-License-Identifier: Apache-2.0
#ifndef NARROWS_METADATA_P4
#define NARROWS_METADATA_P4

typedef bit<9> port_t;
typedef bit<QUEUE_WIDTH> queue_t;

// Where the packet goes: cross_connect's decision.
struct forwarding_t {
    port_t  port;
    queue_t queue;
    bit<1>  discard;
    bit<1>  through_bottleneck;
    bit<8>  share;
}

// Which flow a packet belongs to: its 5-tuple. And the flags of its report that depend on its headers.
struct flow_identity_t {
    bit<1>   is_ipv6;
    bit<128> src;
    bit<128> dst;
    bit<8>   protocol;
    bit<16>  src_port;
    bit<16>  dst_port;
    bit<8>   flags;
}

// What ingress finds out about a packet's flow; it passes through the queue with the packet. The flags are report_t's; the
// bits above them are the flow's share of the indices (flow_share.p4).
struct flow_state_t {
    bottleneck_index_t bottleneck;
    flow_index_t       index;
    bit<32>            signature;
    bit<32>            arrivals;
    bit<32>            loss_drops;
    bit<8>             flags;
    bit<1>             is_new;
#ifdef MANAGED_QUEUES
    // Packets of this flow that queue management dropped; which of the link's queues this packet waits in; and whether it
    // is to be marked.
    bit<32>            aqm_drops;
    bit<16>            queue;
    bit<1>             mark;
#endif
}

// What egress knows about a packet that left the queue. Times and depths are in the target's units.
struct observation_t {
    bit<32> departures;
    bit<32> sequence;
    delay_t queue_delay;
    bit<32> enqueue_depth;
    bit<32> dequeue_depth;
    bit<48> timestamp;
    bit<16> packet_length;
    bit<16> epoch;
    bit<8>  sample_shift;
}

// How a bottleneck is observed: its entry in the table of that name.
struct settings_t {
    bit<32>          ecn_threshold;
#ifdef SEEDED_SAMPLING
    bit<1>           threshold_counts_packets;
    bit<32>          sample_seed;
#endif
    bit<32>          sample_mask;
    bit<8>           sample_shift;
    bit<16>          epoch;
    mirror_session_t mirror_session;
}

// What the control plane receives about a new flow: the 5-tuple that an index stands for.
struct new_flow_t {
    bottleneck_index_t bottleneck;
    flow_index_t       index;
    bit<32>            signature;
    bit<1>             is_ipv6;
    bit<128>           src;
    bit<128>           dst;
    bit<8>             protocol;
    bit<16>            src_port;
    bit<16>            dst_port;
}

#endif
