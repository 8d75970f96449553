// Narrows on Tofino with queue management: the same bottleneck as narrows.p4 and what AQMs of its queues need besides. A
// switch that only runs queues which drop what they have no room for can do with narrows.p4, which takes fewer stages.
// SPDX-License-Identifier: Apache-2.0
#define MANAGED_QUEUES
#include "narrows.p4"
