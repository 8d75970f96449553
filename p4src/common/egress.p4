// The bottleneck after its queue: what the packet found there, whether it is marked, and whether it is reported.
// SPDX-License-Identifier: Apache-2.0
#ifndef NARROWS_EGRESS_P4
#define NARROWS_EGRESS_P4

// A bottleneck's settings, from the control plane. Its packets need them; on Tofino their mirrored copies do, too.
control BottleneckSettings(in bottleneck_index_t bottleneck_index, out settings_t settings) {
    // For a bottleneck that is in use.
#ifdef SEEDED_SAMPLING
    action observe(bit<32> threshold, bit<1> counts_packets, bit<32> seed, bit<32> mask, bit<8> shift, bit<16> epoch,
                   mirror_session_t mirror) {
        settings.threshold_counts_packets = counts_packets;
        settings.sample_seed = seed;
#else
    action observe(bit<32> threshold, bit<32> mask, bit<8> shift, bit<16> epoch, mirror_session_t mirror) {
#endif
        settings.ecn_threshold = threshold;
        settings.sample_mask = mask;
        settings.sample_shift = shift;
        settings.epoch = epoch;
        settings.mirror_session = mirror;
    }

    // For all others: nothing is marked, nothing is reported.
    action ignore() {
#ifdef SEEDED_SAMPLING
        settings.threshold_counts_packets = 0;
        settings.sample_seed = 0;
#endif
        settings.ecn_threshold = 0xffffffff;
        settings.sample_mask = 0;
        settings.sample_shift = 0;
        settings.epoch = 0;
        settings.mirror_session = 0;
    }

    // ECN threshold in depth units or packets (2^32-1: off), sampling (mask = 2^shift - 1), the settings' generation, and
    // the mirror session to the collector (0: no reports).
    table bottleneck {
        key = {
            bottleneck_index: exact @name("bottleneck");
        }
        actions = {
            observe;
            @defaultonly ignore;
        }
        const default_action = ignore();
        size = BOTTLENECK_COUNT;
    }

    apply {
        bottleneck.apply();
    }
}

// `marking_depth`: the depth that the packet found, in the unit of its ECN threshold.
control BottleneckEgress(inout headers_t hdr, inout flow_state_t flow, inout observation_t seen,
                         in settings_t settings, in bit<32> marking_depth, out mirror_session_t mirror_session) {
    // Packets of each flow that left the queue: arrivals - departures is the number of drops.
    PacketTotal() flow_departures;
    // Departures of each bottleneck: the sequence number of reports, and what sampling selects from.
    BottleneckTotal() bottleneck_departures;
    // Which one of 2^shift departures in a row is reported.
    SamplePosition() sample_position;
    // The greatest depth that any packet found, for checks that must not depend on reports.
    HighWatermark() high_watermark;
    // Departures of each flow in packets and bytes, for the control plane.
    FlowCounter(COUNTED_BEHIND_QUEUE) departure_counter;
    // Queue delay of every packet, sampled or not: gives quantiles without reports.
    DelayHistogram() delay_histogram;
    bit<32> ecn_shortfall;
    bit<32> sample_phase;
    bit<32> sampled_phase;
    bit<DELAY_BIN_WIDTH> delay_bin;

    // Sets the bin of a range of delays.
    action set_bin(bit<DELAY_BIN_WIDTH> bin) {
        delay_bin = bin;
    }

    // A delay below the first installed bin. Until bins are installed, this is every delay.
    action shortest() {
        delay_bin = 0;
    }

    // The logarithm of the delay, by prefix match: the control plane installs 4 bins an octave.
    table delay_bins {
        key = {
            seen.queue_delay: lpm @name("queue_delay");
        }
        actions = {
            set_bin;
            @defaultonly shortest;
        }
        const default_action = shortest();
        size = DELAY_BIN_COUNT;
    }

    // RFC 1624: the checksum shrinks by as much as the ToS octet grows. The table's entries include the end-around borrow.
    // The update is incremental, so a checksum that was wrong before is still wrong after, as in a real router.
    action mark_ipv4(bit<16> checksum_change) {
        hdr.ipv4.ecn = 3;
        hdr.ipv4.checksum = hdr.ipv4.checksum + checksum_change;
        flow.flags = flow.flags | FLAG_CE_MARKED;
    }

    // IPv6 has no checksum to update.
    action mark_ipv6() {
        hdr.ipv6.ecn = 3;
        flow.flags = flow.flags | FLAG_CE_MARKED;
    }

    // Sets CE (RFC 3168) on ECN-capable packets that found a depth at or above the threshold.
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
            (0, true, 2, 0x0000, _, _): mark_ipv4(-16w2);
            (0, true, 2, _, _, _): mark_ipv4(-16w1);
            (0, true, 1, 0x0000 &&& 0xfffe, _, _): mark_ipv4(-16w3);
            (0, true, 1, _, _, _): mark_ipv4(-16w2);
            (0, _, _, _, true, 1): mark_ipv6();
            (0, _, _, _, true, 2): mark_ipv6();
        }
    }

    // This departure is reported: a copy goes to the bottleneck's mirror session.
    action report() {
        mirror_session = settings.mirror_session;
    }

    // This departure is only counted.
    action pass() {
        mirror_session = 0;
    }

    // One of each 2^shift departures in a row is reported, at random where a target can: of traffic in step with the sampling,
    // every 2^shift-th would be the same packets again and again. As each row has exactly one report, those lost are known.
    table sampling {
        key = {
            sample_phase: ternary @name("sample_phase");
        }
        actions = {
            report;
            pass;
        }
        const default_action = pass();
        const entries = {
            0: report();
        }
    }

    apply {
        flow_departures.apply(flow.index, seen.departures);
        departure_counter.apply(flow.index);
        bottleneck_departures.apply(flow.bottleneck, seen.sequence);

        // Within a row 1, 2, and so on up to the mask, then 0.
        sample_phase = seen.sequence & settings.sample_mask;
        sample_position.apply(flow.bottleneck, seen.sequence, sample_phase, settings, sampled_phase);
        sample_phase = sample_phase ^ sampled_phase;
        sampling.apply();

        ecn_shortfall = settings.ecn_threshold |-| marking_depth;
#ifdef MANAGED_QUEUES
        if (flow.mark == 1) {
            ecn_shortfall = 0;
        }
#endif
        ecn.apply();

        high_watermark.apply(flow.bottleneck, seen.enqueue_depth);
        delay_bins.apply();
        delay_histogram.apply(flow.bottleneck, delay_bin);
    }
}

#endif
