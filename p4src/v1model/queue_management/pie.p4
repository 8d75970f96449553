// PIE (RFC 8033): drops on arrival with a probability that follows the delay, computed in the same integers as in Linux.
// SPDX-License-Identifier: Apache-2.0
#ifndef NARROWS_PIE_P4
#define NARROWS_PIE_P4

// Probabilities have 56 bits.
const bit<64> PIE_CERTAIN = 0xffffffffffffff;
// Longer delays count as this one, 17 s, so that no product is wider than 64 bits.
const bit<64> PIE_LONGEST = 0x3ffffffff;
const bit<64> PIE_BURST_NS = 150000000;
const bit<64> PIE_VERY_LATE_NS = 250000000;

struct pie_t {
    bit<32> target;
    bit<32> mtu;
    bit<32> limit_bytes;
    bit<32> limit_packets;
    bit<1>  ecn;
}

struct pie_update_t {
    bit<32> target;
    bit<32> tupdate;
    bit<32> alpha;
    bit<32> beta;
}

// The probability; its sum over the packets since the last drop; how much of the burst allowance is used up.
register<bit<64>>(BOTTLENECK_COUNT) pie_probabilities;
register<bit<64>>(BOTTLENECK_COUNT) pie_sums;
register<bit<64>>(BOTTLENECK_COUNT) pie_bursts;
// The delay of the latest departure, 0 if the queue is empty after it; and the same at the last update.
register<bit<64>>(BOTTLENECK_COUNT) pie_delays;
register<bit<64>>(BOTTLENECK_COUNT) pie_old_delays;

// Section 4.1, with 5.1 (marks) and 5.4 (derandomization).
control PieEnqueue(in bottleneck_index_t bottleneck, in pie_t pie, in bit<32> length, in bit<1> capable,
                   out bit<2> verdict) {
    bit<32> at;
    bit<64> probability;
    bit<64> sum;
    bit<64> burst;
    bit<64> delay;
    bit<32> depth_bytes;
    bit<32> depth_packets;
    bit<32> draw;
    bit<1> picked;

    apply {
        at = (bit<32>)bottleneck;
        verdict = VERDICT_PASS;
        picked = 0;
        tm_depth_bytes.read(depth_bytes, at);
        tm_depth_packets.read(depth_packets, at);
        pie_probabilities.read(probability, at);
        pie_sums.read(sum, at);
        pie_bursts.read(burst, at);
        pie_delays.read(delay, at);
        if ((pie.limit_bytes != 0 && depth_bytes + length > pie.limit_bytes)
            || (pie.limit_packets != 0 && depth_packets >= pie.limit_packets)) {
            // The traffic manager will drop the packet.
            sum = 0;
        } else if (burst >= PIE_BURST_NS && depth_bytes >= 2 * pie.mtu
                   && (delay >= (bit<64>)pie.target >> 1 || probability >= PIE_CERTAIN / 5)) {
            if (probability == 0) {
                sum = 0;
            } else {
                sum = sum + probability;
            }
            if (sum >= PIE_CERTAIN / 2 * 17) {
                picked = 1;
            } else if (sum >= PIE_CERTAIN / 100 * 85) {
                random(draw, 32w0, 32w0xffffffff);
                if ((bit<64>)draw << 24 < probability) {
                    sum = 0;
                    picked = 1;
                }
            }
        }
        if (picked == 1) {
            if (pie.ecn == 1 && capable == 1 && probability <= PIE_CERTAIN / 10) {
                verdict = VERDICT_MARK;
            } else {
                verdict = VERDICT_DROP;
                sum = 0;
            }
        }
        pie_sums.write(at, sum);
    }
}

// Section 4.3, by timestamps.
control PieDelay(in bottleneck_index_t bottleneck, in bit<48> sojourn, in bit<32> backlog) {
    apply {
        if (backlog == 0) {
            pie_delays.write((bit<32>)bottleneck, 0);
        } else {
            pie_delays.write((bit<32>)bottleneck, (bit<64>)sojourn);
        }
    }
}

// Section 4.2, each `tupdate`; gains are for each nanosecond of delay, times 2^56.
control PieUpdate(in bottleneck_index_t bottleneck, in pie_update_t pie) {
    bit<32> at;
    bit<64> probability;
    bit<64> burst;
    bit<64> delay;
    bit<64> old_delay;
    bit<32> depth;
    bit<64> alpha;
    bit<64> beta;
    bit<64> up;
    bit<64> down;
    bit<1> high;

    action scale(bit<8> shift) {
        alpha = (bit<64>)pie.alpha >> shift;
        beta = (bit<64>)pie.beta >> shift;
    }

    apply {
        at = (bit<32>)bottleneck;
        tm_depth_bytes.read(depth, at);
        pie_probabilities.read(probability, at);
        pie_bursts.read(burst, at);
        pie_delays.read(delay, at);
        pie_old_delays.read(old_delay, at);
        if (delay > PIE_LONGEST) {
            delay = PIE_LONGEST;
        }
        high = 0;
        if (probability >= PIE_CERTAIN / 10) {
            scale(0);
            high = 1;
        } else if (probability >= PIE_CERTAIN / 100) {
            scale(1);
        } else if (probability >= PIE_CERTAIN / 1000) {
            scale(3);
        } else if (probability >= PIE_CERTAIN / 10000) {
            scale(5);
        } else if (probability >= PIE_CERTAIN / 100000) {
            scale(7);
        } else if (probability >= PIE_CERTAIN / 1000000) {
            scale(9);
        } else {
            scale(11);
        }
        up = alpha * delay + beta * delay;
        down = alpha * (bit<64>)pie.target + beta * old_delay;
        if (up >= down) {
            up = up - down;
            down = 0;
            if (high == 1 && up > PIE_CERTAIN / 100 * 2) {
                up = PIE_CERTAIN / 100 * 2;
            }
        } else {
            down = down - up;
            up = 0;
        }
        if (delay > PIE_VERY_LATE_NS) {
            up = up + PIE_CERTAIN / 50;
        }
        probability = probability + up;
        if (probability <= down) {
            probability = 0;
        } else {
            probability = probability - down;
        }
        if (probability > PIE_CERTAIN) {
            probability = PIE_CERTAIN;
        }
        if (delay == 0 && old_delay == 0 && depth == 0) {
            probability = probability - (probability >> 6);
        }
        if (burst < PIE_BURST_NS) {
            burst = burst + (bit<64>)pie.tupdate;
        }
        if (probability == 0 && delay < (bit<64>)pie.target >> 1 && old_delay < (bit<64>)pie.target >> 1) {
            burst = 0;
            pie_sums.write(at, 0);
        }
        pie_probabilities.write(at, probability);
        pie_bursts.write(at, burst);
        pie_old_delays.write(at, delay);
    }
}

#endif
