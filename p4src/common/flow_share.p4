// Quarters of the flow indices, so that flows of different pipes never meet at one.
// SPDX-License-Identifier: Apache-2.0
#ifndef NARROWS_FLOW_SHARE_P4
#define NARROWS_FLOW_SHARE_P4

// A Tofino's pipes have ingress state of their own, and share that of the pipe which the bottleneck's queue is in. A flow
// whose index another pipe's flow has as well would find departures that are not its own, and nobody could flag it.
// Where senders are in several pipes, the control plane gives each a share, in the three bits of a flow's flags that are no
// report's: 0 all indices, 4 to 7 a quarter. There are at most four pipes.
control FlowShare(in bit<8> share, inout flow_index_t index) {
    // The indices of one quarter begin with its number.
    action quarter(bit<2> part) {
        index[FLOW_INDEX_WIDTH - 1:FLOW_INDEX_WIDTH - 2] = part;
    }

    // From the share to the upper bits that all of its indices have.
    table bits_of_share {
        key = {
            share: ternary @name("share");
        }
        actions = {
            quarter;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        const entries = {
            0x80 &&& SHARE_MASK: quarter(0);
            0xa0 &&& SHARE_MASK: quarter(1);
            0xc0 &&& SHARE_MASK: quarter(2);
            0xe0 &&& SHARE_MASK: quarter(3);
        }
    }

    apply {
        bits_of_share.apply();
    }
}

#endif
