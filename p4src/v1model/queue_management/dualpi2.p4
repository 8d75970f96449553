// DualPI2 (RFC 9332), where the RFC leaves a choice as in Linux; and PI2 (De Schepper et al. 2016), its classic half alone.
// SPDX-License-Identifier: Apache-2.0
#ifndef NARROWS_DUALPI2_P4
#define NARROWS_DUALPI2_P4

const bit<64> PI2_CERTAIN = 0xffffffff;

struct pi2_t {
    // The delay above which the low-latency queue marks every packet.
    bit<32> step;
    // The coupling factor of the two queues.
    bit<8>  coupling;
    bit<32> mtu;
    // The classic queue, too, marks instead of drops where senders allow it.
    bit<1>  ecn;
}

struct pi2_update_t {
    bit<32> target;
    bit<32> alpha;
    bit<32> beta;
}

// The linear probability p', of 32 bits, and the delay at the last update.
register<bit<64>>(BOTTLENECK_COUNT) pi2_probabilities;
register<bit<64>>(BOTTLENECK_COUNT) pi2_old_delays;

// For departures from both queues. The classic queue drops with p' squared: two draws must both be below p'.
control Pi2Dequeue(in bottleneck_index_t bottleneck, in pi2_t pi2, in bit<1> low_queue, in bit<48> sojourn,
                   in bit<32> backlog, in bit<1> capable, out bit<2> verdict) {
    bit<64> probability;
    bit<64> coupled;
    bit<32> draw;
    bit<1> overload;

    apply {
        verdict = VERDICT_PASS;
        if (backlog >= 2 * pi2.mtu) {
            pi2_probabilities.read(probability, (bit<32>)bottleneck);
            coupled = probability * (bit<64>)pi2.coupling;
            overload = 0;
            if (coupled > PI2_CERTAIN) {
                overload = 1;
            }
            random(draw, 32w0, 32w0xffffffff);
            if (low_queue == 1 && overload == 0) {
                if ((bit<64>)draw <= coupled) {
                    verdict = VERDICT_MARK;
                }
            } else {
                if ((bit<64>)draw <= probability) {
                    random(draw, 32w0, 32w0xffffffff);
                    if ((bit<64>)draw <= probability) {
                        verdict = VERDICT_MARK;
                        if (overload == 1 || capable == 0 || pi2.ecn == 0) {
                            verdict = VERDICT_DROP;
                        }
                    }
                }
                if (low_queue == 1 && verdict == VERDICT_PASS) {
                    verdict = VERDICT_MARK;
                }
            }
        }
        if (low_queue == 1 && verdict == VERDICT_PASS && sojourn > (bit<48>)pi2.step) {
            verdict = VERDICT_MARK;
        }
    }
}

// Each `tupdate`, from the delay of the head that has waited longer. Gains are for each 64 ns, times 2^32.
control Pi2Update(in bottleneck_index_t bottleneck, in pi2_update_t pi2, in bit<48> now) {
    bit<32> at;
    bit<48> head;
    bit<48> low_head;
    bit<64> delay;
    bit<64> old_delay;
    bit<64> probability;
    bit<64> up;
    bit<64> down;

    apply {
        at = (bit<32>)bottleneck;
        tm_head_ns.read(head, at << 1);
        tm_head_ns.read(low_head, at << 1 | 1);
        if (head == 0 || (low_head != 0 && low_head < head)) {
            head = low_head;
        }
        delay = 0;
        if (head != 0) {
            delay = (bit<64>)(now - head);
        }
        pi2_probabilities.read(probability, at);
        pi2_old_delays.read(old_delay, at);
        up = (bit<64>)pi2.alpha * delay + (bit<64>)pi2.beta * delay;
        down = (bit<64>)pi2.alpha * (bit<64>)pi2.target + (bit<64>)pi2.beta * old_delay;
        if (up >= down) {
            probability = probability + (up - down >> 6);
            if (probability > PI2_CERTAIN) {
                probability = PI2_CERTAIN;
            }
        } else {
            probability = probability |-| (down - up >> 6);
        }
        pi2_probabilities.write(at, probability);
        pi2_old_delays.write(at, delay);
    }
}

#endif
