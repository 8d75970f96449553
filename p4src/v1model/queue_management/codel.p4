// CoDel (RFC 8289): drops from the head while the smallest delay of an interval is above the target.
// SPDX-License-Identifier: Apache-2.0
#ifndef NARROWS_CODEL_P4
#define NARROWS_CODEL_P4

struct codel_t {
    bit<32> target;
    bit<32> interval;
    bit<32> mtu;
    bit<1>  ecn;
    // The queue is one of several on its link.
    bit<1>  shares_link;
}

// A dropped packet takes none of the link's time: the next one comes at the same instant, so the RFC's loop is this control,
// applied again. The square root is computed as in Linux: one step of Newton's method for each change of the count.
// `backlog`: bytes that wait for the link. `found`, `left`: packets in this queue when this packet arrived, and now. Where a
// link has several queues, `found` is also 0 if the link has since found this queue empty, as the RFC's dequeue would have.
control CoDel(in bit<8> flags, in bottleneck_index_t bottleneck, in link_queue_t queue, in codel_t codel,
              in bit<48> now, in bit<48> sojourn, in bit<32> backlog, in bit<19> found, in bit<19> left,
              out bit<2> verdict) {
    // When the delay will have been above the target for an interval; 0: it is not above it.
    register<bit<48>>(LINK_QUEUE_COUNT) first_above_times;
    // When the next drop is due.
    register<bit<48>>(LINK_QUEUE_COUNT) drop_times;
    // Drops in the dropping state: the count now, and when the state began.
    register<bit<32>>(LINK_QUEUE_COUNT) counts;
    register<bit<32>>(LINK_QUEUE_COUNT) first_counts;
    // 1 / sqrt(count) in units of 2^-16.
    register<bit<16>>(LINK_QUEUE_COUNT) inverse_roots;
    // Whether the queue is in the dropping state.
    register<bit<1>>(LINK_QUEUE_COUNT) dropping_states;
    // A packet was dropped, and whether the next one is dropped too is not known yet.
    register<bit<1>>(LINK_QUEUE_COUNT) pending_drops;
    EcnCapable() ecn;

    bit<1> capable;
    bit<1> low_latency;
    bit<32> at;
    bit<48> first_above;
    bit<48> drop_next;
    bit<32> count;
    bit<32> first_count;
    bit<16> inverse_root;
    bit<1> dropping;
    bit<1> pending;
    bit<1> above;
    bit<64> wide;
    bit<64> residue;
    bit<32> since;

    // One step towards 1 / sqrt(count).
    action newton_step() {
        wide = (bit<64>)inverse_root << 16;
        residue = (64w3 << 32) - (bit<64>)count * (wide * wide >> 32);
        inverse_root = (bit<16>)(((residue >> 2) * wide >> 31) >> 16);
    }

    // interval / sqrt(count) later.
    action control_law(bit<48> from) {
        drop_next = from + (bit<48>)((bit<64>)codel.interval * ((bit<64>)inverse_root << 16) >> 32);
    }

    apply {
        at = (bit<32>)(bottleneck ++ queue);
        first_above_times.read(first_above, at);
        dropping_states.read(dropping, at);
        verdict = VERDICT_PASS;
        above = 0;
        if (codel.shares_link == 1 && found == 0) {
            first_above = 0;
            dropping = 0;
            dropping_states.write(at, 0);
            pending_drops.write(at, 0);
        }
        if (sojourn < (bit<48>)codel.target || backlog <= codel.mtu) {
            first_above = 0;
        } else if (first_above == 0) {
            first_above = now + (bit<48>)codel.interval;
        } else if (now >= first_above) {
            above = 1;
        }
        first_above_times.write(at, first_above);

        if (above == 0) {
            if (dropping == 1) {
                dropping_states.write(at, 0);
                pending_drops.write(at, 0);
            }
        } else {
            ecn.apply(flags, capable, low_latency);
            drop_times.read(drop_next, at);
            counts.read(count, at);
            inverse_roots.read(inverse_root, at);
            if (dropping == 1) {
                pending_drops.read(pending, at);
                if (pending == 1) {
                    control_law(drop_next);
                    pending = 0;
                }
                if (now >= drop_next) {
                    count = count + 1;
                    newton_step();
                    if (codel.ecn == 1 && capable == 1) {
                        verdict = VERDICT_MARK;
                        control_law(drop_next);
                    } else {
                        verdict = VERDICT_DROP;
                        pending = 1;
                    }
                }
                pending_drops.write(at, pending);
            } else {
                if (codel.ecn == 1 && capable == 1) {
                    verdict = VERDICT_MARK;
                } else {
                    verdict = VERDICT_DROP;
                }
                first_counts.read(first_count, at);
                since = count - first_count;
                // The last dropping state ended recently and dropped more than once: continue at its rate.
                if (since > 1 && now < drop_next + ((bit<48>)codel.interval << 4)) {
                    count = since;
                    newton_step();
                } else {
                    count = 1;
                    inverse_root = 0xffff;
                }
                control_law(now);
                first_counts.write(at, count);
                dropping_states.write(at, 1);
            }
            if (verdict == VERDICT_DROP && left == 0) {
                // The queue is empty: the RFC's next packet is NULL.
                first_above_times.write(at, 0);
                dropping_states.write(at, 0);
                pending_drops.write(at, 0);
            }
            drop_times.write(at, drop_next);
            counts.write(at, count);
            inverse_roots.write(at, inverse_root);
        }
    }
}

#endif
