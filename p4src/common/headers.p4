// Headers on the wire. report_t is the one definition of the telemetry report: the compiled artifact carries it,
// and every decoder is tested against the artifact (docs/report-format.md explains each field).
// SPDX-License-Identifier: Apache-2.0
#ifndef NARROWS_HEADERS_P4
#define NARROWS_HEADERS_P4

typedef bit<48> mac_address_t;
typedef bit<32> ipv4_address_t;
typedef bit<128> ipv6_address_t;

header ethernet_t {
    mac_address_t dst;
    mac_address_t src;
    bit<16>       ethertype;
}

header vlan_t {
    bit<16> tci;
    bit<16> ethertype;
}

header ipv4_t {
    bit<4>         version;
    bit<4>         ihl;
    bit<6>         dscp;
    bit<2>         ecn;
    bit<16>        total_length;
    bit<16>        identification;
    bit<1>         reserved_flag;
    bit<1>         dont_fragment;
    bit<1>         more_fragments;
    bit<13>        fragment_offset;
    bit<8>         ttl;
    bit<8>         protocol;
    bit<16>        checksum;
    ipv4_address_t src;
    ipv4_address_t dst;
}

header ipv6_t {
    bit<4>         version;
    bit<6>         dscp;
    bit<2>         ecn;
    bit<20>        flow_label;
    bit<16>        payload_length;
    bit<8>         next_header;
    bit<8>         hop_limit;
    ipv6_address_t src;
    ipv6_address_t dst;
}

// The first four bytes of TCP, UDP, UDP-Lite, DCCP and SCTP: all that flow identity needs of them.
header ports_t {
    bit<16> src;
    bit<16> dst;
}

header udp_t {
    bit<16> src_port;
    bit<16> dst_port;
    bit<16> length;
    bit<16> checksum;
}

// Telemetry report, big-endian, 56 bytes. Times and depths are in the units of the target profile.
header report_t {
    bit<8>  version;        // layout version, REPORT_VERSION
    bit<8>  flags;          // report_flags_t
    bit<8>  bottleneck;     // bottleneck index, 0..63
    bit<8>  sample_shift;   // k: one report in each row of 2^k departures of this bottleneck
    bit<16> flow;           // flow index: hash of bottleneck and 5-tuple
    bit<16> packet_length;  // Ethernet frame without preamble, gap and FCS, before truncation, in bytes
    bit<32> signature;      // second, independent hash of bottleneck and 5-tuple: tells colliding flows apart
    bit<32> sequence;       // departures of this bottleneck so far; (sequence - 1) >> sample_shift grows by 1 a report
    bit<32> arrivals;       // packets of this flow offered to the queue up to and including this one
    bit<32> departures;     // packets of this flow that left the queue up to and including this one
    bit<32> loss_drops;     // packets of this flow dropped by loss emulation before this one arrived
    bit<32> aqm_drops;      // packets of this flow dropped by queue management so far; 0, no queue here has any
    bit<32> enqueue_depth;  // queue depth this packet found, itself excluded, in depth units
    bit<32> dequeue_depth;  // queue depth this packet left behind, in depth units
    bit<48> queue_delay;    // egress time - ingress time, in time units
    bit<16> epoch;          // generation of the queue's settings when this packet was enqueued
    bit<48> timestamp;      // egress time, in time units
    bit<16> queue;          // which of the bottleneck's queues it left; 0, there is one
}

// report_t.flags
const bit<8> FLAG_CE_MARKED = 0x01;      // this switch set CE on the packet
const bit<8> FLAG_COLLISION = 0x02;      // another flow owns this flow index: arrivals and departures are shared
const bit<8> FLAG_NOT_IP = 0x04;         // neither IPv4 nor IPv6: all such packets of a bottleneck are one flow
// 0x18: the packet's ECN field when it arrived; its own header has the one with which it leaves.
const bit<8> REPORTED_FLAGS = 0x1f;      // a report's flags; the bits above never leave the switch and are 0 in reports
const bit<8> SHARE_MASK = 0xe0;          // within the switch: the flow's share of the flow indices

// TARGET_HEADERS: headers that a target adds; they are never on the wire.
struct headers_t {
    TARGET_HEADERS
    ethernet_t report_ethernet;
    ipv4_t     report_ipv4;
    udp_t      report_udp;
    report_t   report;
    ethernet_t ethernet;
    vlan_t     vlan_outer;
    vlan_t     vlan_inner;
    ipv4_t     ipv4;
    ipv6_t     ipv6;
    ports_t    ports;
}

#endif
