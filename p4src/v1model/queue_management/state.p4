// What the traffic manager tells of its queues, and what laws of both gresses share.
// SPDX-License-Identifier: Apache-2.0
#ifndef NARROWS_QUEUE_STATE_P4
#define NARROWS_QUEUE_STATE_P4

// A timer's frames come in by this port, the last one but v1model's "drop"; their destination's lowest bits say whose time
// it is. Tofino's packet generator has such a port.
const bit<9> TIMER_PORT = 510;

// Queues of one link, at most: fair queues are as many.
#define LINK_QUEUE_WIDTH 10
#define LINK_QUEUE_COUNT (1 << (BOTTLENECK_WIDTH + LINK_QUEUE_WIDTH))
typedef bit<LINK_QUEUE_WIDTH> link_queue_t;

// What queue management decides about a packet.
const bit<2> VERDICT_PASS = 0;
const bit<2> VERDICT_MARK = 1;
const bit<2> VERDICT_DROP = 2;

// Written by the traffic manager, which knows them by their names, whenever a managed queue changes, as Tofino 2's ghost
// thread does: what waits now,
register<bit<32>>(BOTTLENECK_COUNT) tm_depth_bytes;
register<bit<32>>(BOTTLENECK_COUNT) tm_depth_packets;
// when the link has sent what has started,
register<bit<48>>(BOTTLENECK_COUNT) tm_link_free_ns;
// and when the packet arrived that will start next, of each of two queues; 0: none waits.
register<bit<48>>(2 * BOTTLENECK_COUNT) tm_head_ns;

// Whether the sender allows marks (RFC 3168), and whether it asks for those of L4S (RFC 9331): by the ECN field with which
// the packet arrived, as its report's flags have it. To look at the headers again would take branches on their validity.
control EcnCapable(in bit<8> flags, out bit<1> capable, out bit<1> low_latency) {
    apply {
        capable = flags[4:4] | flags[3:3];
        low_latency = flags[3:3];
    }
}

#endif
