// What the traffic manager reports about its queues, and what AQMs in ingress and egress share.
// SPDX-License-Identifier: Apache-2.0
#ifndef NARROWS_QUEUE_STATE_P4
#define NARROWS_QUEUE_STATE_P4

// A timer's frames come in by this port, v1model's "drop", by which no packet can come in. The lowest bits of their destination name the
// bottleneck. Tofino's packet generator has such a port, too.
const bit<9> TIMER_PORT = 511;

// The most queues that a link can have: so many fair queues.
#define LINK_QUEUE_WIDTH 10
#define LINK_QUEUE_COUNT (1 << (BOTTLENECK_WIDTH + LINK_QUEUE_WIDTH))
typedef bit<LINK_QUEUE_WIDTH> link_queue_t;

// The decision of queue management about a packet.
const bit<2> VERDICT_PASS = 0;
const bit<2> VERDICT_MARK = 1;
const bit<2> VERDICT_DROP = 2;

// The traffic manager finds these registers by their names and writes them whenever a managed queue changes, as Tofino 2's
// ghost thread does. What waits now:
register<bit<32>>(BOTTLENECK_COUNT) tm_depth_bytes;
register<bit<32>>(BOTTLENECK_COUNT) tm_depth_packets;
// When the link will have sent the packet that has started.
register<bit<48>>(BOTTLENECK_COUNT) tm_link_free_ns;
// When the packet arrived that will start next, for each of two queues; 0: none waits.
register<bit<48>>(2 * BOTTLENECK_COUNT) tm_head_ns;

// Whether the sender allows marks (RFC 3168), and whether it asks for those of L4S (RFC 9331): from the ECN field at arrival,
// which is in the flags of the report. To read the headers again would take branches on their validity.
control EcnCapable(in bit<8> flags, out bit<1> capable, out bit<1> low_latency) {
    apply {
        capable = flags[4:4] | flags[3:3];
        low_latency = flags[3:3];
    }
}

#endif
