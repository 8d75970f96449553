// Turns the mirrored copy of a packet into a telemetry report: Ethernet / IPv4 / UDP / report_t / original headers.
// SPDX-License-Identifier: Apache-2.0
#ifndef NARROWS_REPORT_P4
#define NARROWS_REPORT_P4

control ReportEncapsulation(inout headers_t hdr, in flow_state_t flow, in observation_t seen,
                            out bit<16> report_length, out bit<1> undeliverable) {
    bit<16> length_limit;
    bit<16> whole_length;
    bit<16> excess;

    // The headers before the report. Two fields are completed below: the length, which depends on the packet's, and the
    // last six bits of the source port, which depend on its flow.
    action encapsulate(mac_address_t src_mac, mac_address_t dst_mac, ipv4_address_t src_ip, ipv4_address_t dst_ip,
                       bit<16> src_port, bit<16> dst_port, bit<16> length) {
        hdr.report_ethernet.setValid();
        hdr.report_ethernet.dst = dst_mac;
        hdr.report_ethernet.src = src_mac;
        hdr.report_ethernet.ethertype = ETHERTYPE_IPV4;
        hdr.report_ipv4.setValid();
        hdr.report_ipv4.version = 4;
        hdr.report_ipv4.ihl = 5;
        hdr.report_ipv4.dscp = 0;
        hdr.report_ipv4.ecn = 0;
        hdr.report_ipv4.identification = 0;
        hdr.report_ipv4.reserved_flag = 0;
        hdr.report_ipv4.dont_fragment = 1;
        hdr.report_ipv4.more_fragments = 0;
        hdr.report_ipv4.fragment_offset = 0;
        hdr.report_ipv4.ttl = 64;
        hdr.report_ipv4.protocol = PROTOCOL_UDP;
        hdr.report_ipv4.checksum = 0;
        hdr.report_ipv4.src = src_ip;
        hdr.report_ipv4.dst = dst_ip;
        hdr.report_udp.setValid();
        hdr.report_udp.src_port = src_port;
        hdr.report_udp.dst_port = dst_port;
        hdr.report_udp.checksum = 0;
        undeliverable = 0;
        length_limit = length;
        whole_length = seen.packet_length + REPORT_ENCAPSULATION_BYTES;
    }

    // There is no collector: the copy cannot be sent, as it has no headers.
    action no_collector() {
        undeliverable = 1;
        length_limit = 0;
        whole_length = 0;
    }

    // Where a bottleneck's reports go, and how long a report may be, in bytes with its encapsulation.
    table collector {
        key = {
            flow.bottleneck: exact @name("bottleneck");
        }
        actions = {
            encapsulate;
            @defaultonly no_collector;
        }
        const default_action = no_collector();
        size = BOTTLENECK_COUNT;
    }

    // The report is no longer than allowed.
    action keep_whole() {
        report_length = whole_length;
    }

    // The report would be too long.
    action cut() {
        report_length = length_limit;
    }

    // Chooses the smaller length.
    table truncation {
        key = {
            excess: ternary @name("excess");
        }
        actions = {
            keep_whole;
            cut;
        }
        const default_action = cut();
        const entries = {
            0: keep_whole();
        }
    }

    apply {
        hdr.report.setValid();
        hdr.report.version = REPORT_VERSION;
        hdr.report.bottleneck = 0;
        hdr.report.flow = 0;
        collector.apply();
        excess = whole_length |-| length_limit;
        truncation.apply();
        hdr.report.flags = flow.flags & REPORTED_FLAGS;
        hdr.report.bottleneck[BOTTLENECK_WIDTH - 1:0] = flow.bottleneck;
        hdr.report.sample_shift = seen.sample_shift;
        hdr.report.flow[FLOW_INDEX_WIDTH - 1:0] = flow.index;
        hdr.report.packet_length = seen.packet_length;
        hdr.report.signature = flow.signature;
        hdr.report.sequence = seen.sequence;
        hdr.report.arrivals = flow.arrivals;
        hdr.report.departures = seen.departures;
        hdr.report.loss_drops = flow.loss_drops;
#ifdef MANAGED_QUEUES
        hdr.report.aqm_drops = flow.aqm_drops;
        hdr.report.queue = flow.queue;
#else
        hdr.report.aqm_drops = 0;
        hdr.report.queue = 0;
#endif
        hdr.report.enqueue_depth = seen.enqueue_depth;
        hdr.report.dequeue_depth = seen.dequeue_depth;
        hdr.report.queue_delay = (bit<48>)seen.queue_delay;
        hdr.report.epoch = seen.epoch;
        hdr.report.timestamp = seen.timestamp;
        hdr.report_ipv4.total_length = report_length - ETHERNET_BYTES;
        hdr.report_udp.length = report_length - (ETHERNET_BYTES + IPV4_BYTES);
        // A NIC distributes packets to its queues by addresses and ports: here by flow, so that a flow stays in order.
        hdr.report_udp.src_port[5:0] = flow.index[5:0];
    }
}

#endif
