// RED (Floyd and Jacobson 1993, RFC 7567): drops on arrival with a probability that follows the average depth.
// SPDX-License-Identifier: Apache-2.0
#ifndef NARROWS_RED_P4
#define NARROWS_RED_P4

// The number 1, as probabilities have it, and the factor by which an idle time lowers the average.
const bit<64> RED_ONE = 0x100000000;
const bit<64> LN_2 = 0xb17217f7;

struct red_t {
    // Depths are in units of 2^-10 packets, so that the average has parts of one; otherwise in bytes.
    bit<1>  counts_packets;
    // The newest arrival has the weight 2^-weight.
    bit<8>  weight;
    // Bounds of the average, times 2^weight; and the probability, times 2^32, for each unit above the lower bound.
    bit<64> low;
    bit<64> high;
    bit<64> slope;
    // How often each idle nanosecond halves the average, times 2^56; and after how many of them the average is 0.
    bit<64> halvings;
    bit<48> forgotten;
    // Marks instead of drops; drops above the upper bound all the same; lets packets pass that cannot be marked.
    bit<1>  ecn;
    bit<1>  harddrop;
    bit<1>  nodrop;
}

control RedEnqueue(in bottleneck_index_t bottleneck, in red_t red, in bit<48> now, in bit<1> capable,
                   out bit<2> verdict) {
    // The average of the depth, times 2^weight.
    register<bit<64>>(BOTTLENECK_COUNT) averages;
    // The next packet's place in the count since the last pick; 0 while the average is below its lower bound.
    register<bit<32>>(BOTTLENECK_COUNT) unpicked_packets;
    // When the latest packet arrived.
    register<bit<48>>(BOTTLENECK_COUNT) arrival_times;

    bit<32> at;
    bit<64> average;
    bit<32> unpicked;
    bit<48> last;
    bit<48> link_free;
    bit<32> depth;
    bit<48> idle;
    bit<64> halvings;
    bit<64> exponent;
    bit<64> left;
    bit<64> probability;
    bit<64> spent;
    bit<32> draw;
    bit<1> picked;
    bit<1> forced;

    // e^-x = 1 - x (1 - x/2 (1 - x/3 (...))), computed from the inside outwards.
    action next_term(bit<64> inverse) {
        left = RED_ONE - ((exponent * inverse >> 32) * left >> 32);
    }

    // After the time of m packets the average falls by (1 - w)^m = 2^-halvings; of the fraction, 2^-f = e^(-f ln 2).
    action begin_decay() {
        halvings = (bit<64>)idle * red.halvings;
        exponent = (halvings >> 24 & 0xffffffff) * LN_2 >> 32;
        left = RED_ONE;
    }

    action end_decay() {
        average = (average >> 32) * left + ((average & 0xffffffff) * left >> 32) >> (bit<8>)(halvings >> 56);
    }

    apply {
        at = (bit<32>)bottleneck;
        verdict = VERDICT_PASS;
        averages.read(average, at);
        unpicked_packets.read(unpicked, at);
        arrival_times.read(last, at);
        tm_link_free_ns.read(link_free, at);
        if (red.counts_packets == 1) {
            tm_depth_packets.read(depth, at);
            depth = depth << 10;
        } else {
            tm_depth_bytes.read(depth, at);
        }

        // Times wrap: a link that became free less than half of their range ago is idle.
        idle = now - link_free;
        if (depth == 0 && idle[47:47] == 0) {
            if (now - last < idle) {
                idle = now - last;
            }
            // Of an average of 0 nothing is left either: a link that never queues pays for no decay.
            if (idle >= red.forgotten || average == 0) {
                average = 0;
            } else {
                begin_decay();
                next_term(RED_ONE / 9);
                next_term(RED_ONE / 8);
                next_term(RED_ONE / 7);
                next_term(RED_ONE / 6);
                next_term(RED_ONE / 5);
                next_term(RED_ONE / 4);
                next_term(RED_ONE / 3);
                next_term(RED_ONE / 2);
                next_term(RED_ONE);
                end_decay();
            }
        } else {
            average = average + (bit<64>)depth - (average >> red.weight);
        }

        picked = 0;
        forced = 0;
        if (average < red.low) {
            unpicked = 0;
        } else if (average >= red.high) {
            picked = 1;
            forced = 1;
        } else {
            // After n packets since the last pick, the next one is picked with probability p / (1 - n p).
            probability = (average - red.low) * red.slope >> 32;
            spent = (bit<64>)unpicked * probability;
            unpicked = unpicked + 1;
            if (spent >= RED_ONE) {
                picked = 1;
            } else {
                random(draw, 32w0, 32w0xffffffff);
                if ((bit<64>)draw * (RED_ONE - spent) < probability << 32) {
                    picked = 1;
                }
            }
        }
        if (picked == 1) {
            unpicked = 1;
            if (red.ecn == 0 || (forced == 1 && red.harddrop == 1)) {
                verdict = VERDICT_DROP;
            } else if (capable == 1) {
                verdict = VERDICT_MARK;
            } else if (red.nodrop == 0) {
                verdict = VERDICT_DROP;
            }
        }
        averages.write(at, average);
        unpicked_packets.write(at, unpicked);
        arrival_times.write(at, now);
    }
}

#endif
