// Hosts that share a port of the switch are in VLANs of their own, which a switch between them and this one keeps apart.
// SPDX-License-Identifier: Apache-2.0
#ifndef NARROWS_HOST_VLAN_P4
#define NARROWS_HOST_VLAN_P4

control HostVlan(inout headers_t hdr) {
    // The frame goes to another VLAN than it came from. Its priority stays.
    action retag(bit<12> vlan) {
        hdr.vlan_outer.tci[11:0] = vlan;
    }

    // The VLAN of each host that has one. All hosts of a testbed have one or none has: a frame's length stays.
    table host_vlan {
        key = {
            hdr.vlan_outer.isValid(): exact @name("is_tagged");
            hdr.ethernet.dst: exact @name("dst_mac");
        }
        actions = {
            retag;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = 64;
    }

    apply {
        host_vlan.apply();
    }
}

#endif
