// Narrows on a traffic manager that lets the program manage its queues: the softswitch's, where a link has such a queue.
// The same bottleneck as narrows.p4; a queue that only drops what it has no room for runs that one, which costs less.
// SPDX-License-Identifier: Apache-2.0
#define MANAGED_QUEUES
#include "narrows.p4"
