// The bottleneck behind its queue: what the packet met there, whether it is marked, and whether it is reported.
// SPDX-License-Identifier: Apache-2.0
#ifndef NARROWS_EGRESS_P4
#define NARROWS_EGRESS_P4

control BottleneckEgress(inout headers_t hdr, inout flow_state_t flow, inout observation_t seen,
                         out mirror_session_t mirror_session) {
    // Packets that left the queue: arrivals - departures is the number of drops.
    RunningTotal(FLOW_COUNT) flow_departures;
    // Counts a bottleneck's departures: the report's sequence number, and what sampling picks from.
    BottleneckTotal() bottleneck_departures;
    // The deepest queue any packet found, for checks that must not depend on reports.
    HighWatermark() high_watermark;
    // Departures in packets and bytes for the control plane.
    FlowCounter() departure_counter;
    // Queue delay of every packet, sampled or not: quantiles without reports.
    DelayHistogram() delay_histogram;
    bit<32> ecn_threshold = 0xffffffff;
    bit<32> ecn_shortfall;
    bit<32> sample_mask = 0;
    bit<32> sample_phase;
    mirror_session_t session = 0;
    bit<DELAY_BIN_WIDTH> delay_bin = 0;

    action observe(bit<32> threshold, bit<32> mask, bit<8> shift, bit<16> epoch, mirror_session_t mirror) {
        ecn_threshold = threshold;
        sample_mask = mask;
        seen.sample_shift = shift;
        seen.epoch = epoch;
        session = mirror;
    }

    // Settings of a bottleneck: ECN threshold in depth units (2^32-1: off), sampling (mask = 2^shift - 1), the settings'
    // generation, and the mirror session to the collector (0: no reports).
    table bottleneck {
        key = {
            flow.bottleneck: exact @name("bottleneck");
        }
        actions = {
            observe;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = BOTTLENECK_COUNT;
    }

    action set_bin(bit<DELAY_BIN_WIDTH> bin) {
        delay_bin = bin;
    }

    // Logarithm of the delay, as prefixes: the control plane installs 4 bins an octave.
    table delay_bins {
        key = {
            seen.queue_delay: lpm @name("queue_delay");
        }
        actions = {
            set_bin;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = 128;
    }

    // RFC 1624: the ToS octet grows by `delta`, so the checksum shrinks by it; the table adds the end-around borrow.
    // An incremental update keeps a checksum that was wrong before wrong after, as a real router does.
    action mark_ipv4(bit<16> delta) {
        hdr.ipv4.ecn = 3;
        hdr.ipv4.checksum = hdr.ipv4.checksum - delta;
        flow.flags = flow.flags | FLAG_CE_MARKED;
    }

    action mark_ipv6() {
        hdr.ipv6.ecn = 3;
        flow.flags = flow.flags | FLAG_CE_MARKED;
    }

    // CE (RFC 3168) on ECN-capable packets only, when the depth they found is at or above the threshold.
    table ecn {
        key = {
            ecn_shortfall: ternary @name("shortfall");
            hdr.ipv4.isValid(): ternary @name("is_ipv4");
            hdr.ipv4.ecn: ternary @name("ecn_ipv4");
            hdr.ipv4.checksum: ternary @name("checksum");
            hdr.ipv6.isValid(): ternary @name("is_ipv6");
            hdr.ipv6.ecn: ternary @name("ecn_ipv6");
        }
        actions = {
            mark_ipv4;
            mark_ipv6;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        const entries = {
            (0, true, 2, 0x0000, _, _): mark_ipv4(2);
            (0, true, 2, _, _, _): mark_ipv4(1);
            (0, true, 1, 0x0000 &&& 0xfffe, _, _): mark_ipv4(3);
            (0, true, 1, _, _, _): mark_ipv4(2);
            (0, _, _, _, true, 1): mark_ipv6();
            (0, _, _, _, true, 2): mark_ipv6();
        }
    }

    apply {
        flow_departures.apply(flow.index, 1, seen.departures);
        departure_counter.apply(flow.index);
        bottleneck_departures.apply(flow.bottleneck, seen.sequence);
        high_watermark.apply(flow.bottleneck, seen.enqueue_depth);
        delay_bins.apply();
        delay_histogram.apply(flow.bottleneck, delay_bin);

        bottleneck.apply();
        ecn_shortfall = ecn_threshold |-| seen.enqueue_depth;
        ecn.apply();

        sample_phase = seen.sequence & sample_mask;
        mirror_session = 0;
        if (sample_phase == 0) {
            mirror_session = session;
        }
    }
}

#endif
