// Sizes and constants that both architectures share. A target may override a size before including this file.
// SPDX-License-Identifier: Apache-2.0
#ifndef NARROWS_CONSTANTS_P4
#define NARROWS_CONSTANTS_P4

#ifndef FLOW_INDEX_WIDTH
#define FLOW_INDEX_WIDTH 16
#endif
#define FLOW_COUNT (1 << FLOW_INDEX_WIDTH)

#define BOTTLENECK_WIDTH 6
#define BOTTLENECK_COUNT (1 << BOTTLENECK_WIDTH)

typedef bit<FLOW_INDEX_WIDTH> flow_index_t;
typedef bit<BOTTLENECK_WIDTH> bottleneck_index_t;

// Queue delay, and its histogram: 4 bins an octave over 48 bits need 188 bins; 256 keep the index a concatenation.
#ifndef DELAY_WIDTH
#define DELAY_WIDTH 48
#define DELAY_BIN_WIDTH 8
#endif
typedef bit<DELAY_WIDTH> delay_t;
#define DELAY_BIN_COUNT (1 << DELAY_BIN_WIDTH)
#define HISTOGRAM_WIDTH (BOTTLENECK_WIDTH + DELAY_BIN_WIDTH)
#define HISTOGRAM_SIZE (1 << HISTOGRAM_WIDTH)

const bit<16> ETHERTYPE_IPV4 = 0x0800;
const bit<16> ETHERTYPE_IPV6 = 0x86dd;
const bit<16> ETHERTYPE_VLAN = 0x8100;
const bit<16> ETHERTYPE_QINQ = 0x88a8;

const bit<8> PROTOCOL_TCP = 6;
const bit<8> PROTOCOL_UDP = 17;
const bit<8> PROTOCOL_DCCP = 33;
const bit<8> PROTOCOL_SCTP = 132;
const bit<8> PROTOCOL_UDPLITE = 136;

const bit<8> REPORT_VERSION = 2;
// Bytes that a report adds before the original headers: Ethernet 14, IPv4 20, UDP 8, report_t 56.
const bit<16> REPORT_ENCAPSULATION_BYTES = 98;
const bit<16> ETHERNET_BYTES = 14;
const bit<16> IPV4_BYTES = 20;

#endif
