// Narrows for a traffic manager whose queues the program manages: the softswitch runs it if a link has such a queue.
// The bottleneck is that of narrows.p4, which is cheaper, and is run if all queues only drop what does not fit.
// SPDX-License-Identifier: Apache-2.0
#define MANAGED_QUEUES
#include "narrows.p4"
