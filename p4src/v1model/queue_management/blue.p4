// BLUE (Feng et al. 2002): drops on arrival with a probability that grows when the queue overflows and falls when the link is idle.
// SPDX-License-Identifier: Apache-2.0
#ifndef NARROWS_BLUE_P4
#define NARROWS_BLUE_P4

// The number 1, less what 32 bits cannot hold.
const bit<32> BLUE_CERTAIN = 0xffffffff;

struct blue_t {
    // What may wait; 0: not in this unit.
    bit<32> limit_bytes;
    bit<32> limit_packets;
    // By how much the probability changes, times 2^32.
    bit<32> increment;
    bit<32> decrement;
    // The least time from one change to the next.
    bit<32> freeze;
    // Marks instead of drops.
    bit<1>  ecn;
}

control BlueEnqueue(in bottleneck_index_t bottleneck, in blue_t blue, in bit<32> length, in bit<48> now, in bit<1> capable,
                    out bit<2> verdict) {
    // The probability, times 2^32, and when it changed last.
    register<bit<32>>(BOTTLENECK_COUNT) probabilities;
    register<bit<48>>(BOTTLENECK_COUNT) change_times;
    // When the link fell idle the last time that it is known of: each idle time counts once.
    register<bit<48>>(BOTTLENECK_COUNT) idle_times;

    bit<32> at;
    bit<32> probability;
    bit<48> changed;
    bit<48> known;
    bit<48> link_free;
    bit<48> idle;
    bit<32> depth_bytes;
    bit<32> depth_packets;
    bit<32> draw;

    apply {
        at = (bit<32>)bottleneck;
        verdict = VERDICT_PASS;
        probabilities.read(probability, at);
        change_times.read(changed, at);
        idle_times.read(known, at);
        tm_link_free_ns.read(link_free, at);
        tm_depth_bytes.read(depth_bytes, at);
        tm_depth_packets.read(depth_packets, at);

        // The probability is not asked for before the next packet comes, which is soon enough to learn of an idle time. Times
        // wrap: a link that became free less than half of their range ago is idle.
        idle = now - link_free;
        if (depth_bytes == 0 && idle[47:47] == 0 && link_free != known) {
            idle_times.write(at, link_free);
            if (link_free - changed > (bit<48>)blue.freeze) {
                changed = link_free;
                if (probability > blue.decrement) {
                    probability = probability - blue.decrement;
                } else {
                    probability = 0;
                }
            }
        }

        if ((blue.limit_bytes != 0 && depth_bytes + length > blue.limit_bytes)
            || (blue.limit_packets != 0 && depth_packets >= blue.limit_packets)) {
            // The traffic manager will drop the packet.
            if (now - changed > (bit<48>)blue.freeze) {
                changed = now;
                if (probability < BLUE_CERTAIN - blue.increment) {
                    probability = probability + blue.increment;
                } else {
                    probability = BLUE_CERTAIN;
                }
            }
        } else if (probability != 0) {
            random(draw, 32w0, 32w0xffffffff);
            if (draw < probability) {
                if (blue.ecn == 1 && capable == 1) {
                    verdict = VERDICT_MARK;
                } else {
                    verdict = VERDICT_DROP;
                }
            }
        }
        probabilities.write(at, probability);
        change_times.write(at, changed);
    }
}

#endif
