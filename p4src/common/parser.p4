// Parses an Ethernet frame as far as flow identity and ECN need it. Whatever is not understood stays payload and is
// forwarded unchanged, so that for all other traffic the switch is a wire.
// SPDX-License-Identifier: Apache-2.0
#ifndef NARROWS_PARSER_P4
#define NARROWS_PARSER_P4

parser FrameParser(packet_in packet, out headers_t hdr) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ethertype) {
            ETHERTYPE_VLAN: parse_vlan_outer;
            ETHERTYPE_QINQ: parse_vlan_outer;
            ETHERTYPE_IPV4: parse_ipv4;
            ETHERTYPE_IPV6: parse_ipv6;
            default: accept;
        }
    }

    state parse_vlan_outer {
        packet.extract(hdr.vlan_outer);
        transition select(hdr.vlan_outer.ethertype) {
            ETHERTYPE_VLAN: parse_vlan_inner;
            ETHERTYPE_IPV4: parse_ipv4;
            ETHERTYPE_IPV6: parse_ipv6;
            default: accept;
        }
    }

    state parse_vlan_inner {
        packet.extract(hdr.vlan_inner);
        transition select(hdr.vlan_inner.ethertype) {
            ETHERTYPE_IPV4: parse_ipv4;
            ETHERTYPE_IPV6: parse_ipv6;
            default: accept;
        }
    }

    // Ports are read only where they are certain to be ports: without IPv4 options, fragments (so that all fragments of a
    // datagram are of one flow) and IPv6 extension headers. Other packets are distinguished by addresses and protocol.
    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.ihl, hdr.ipv4.more_fragments, hdr.ipv4.fragment_offset, hdr.ipv4.protocol) {
            (5, 0, 0, PROTOCOL_TCP): parse_ports;
            (5, 0, 0, PROTOCOL_UDP): parse_ports;
            (5, 0, 0, PROTOCOL_DCCP): parse_ports;
            (5, 0, 0, PROTOCOL_SCTP): parse_ports;
            (5, 0, 0, PROTOCOL_UDPLITE): parse_ports;
            default: accept;
        }
    }

    state parse_ipv6 {
        packet.extract(hdr.ipv6);
        transition select(hdr.ipv6.next_header) {
            PROTOCOL_TCP: parse_ports;
            PROTOCOL_UDP: parse_ports;
            PROTOCOL_DCCP: parse_ports;
            PROTOCOL_SCTP: parse_ports;
            PROTOCOL_UDPLITE: parse_ports;
            default: accept;
        }
    }

    state parse_ports {
        packet.extract(hdr.ports);
        transition accept;
    }
}

#endif
