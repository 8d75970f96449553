//! Real-time priority of the calling thread.
// SPDX-License-Identifier: Apache-2.0

/// Above ordinary threads, in the middle of the real-time ones.
const PRIORITY: libc::c_int = 50;

/// Puts the calling thread before all ordinary ones, or back among them. False: not permitted.
pub fn set_real_time(on: bool) -> bool {
    let (policy, priority) = if on { (libc::SCHED_FIFO, PRIORITY) } else { (libc::SCHED_OTHER, 0) };
    // SAFETY: all-zero is a valid sched_param.
    let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    parameters.sched_priority = priority;
    // SAFETY: 0 is the calling thread; `parameters` is valid for the call. Threads made later do not inherit the policy.
    unsafe { libc::sched_setscheduler(0, policy | libc::SCHED_RESET_ON_FORK, &parameters) == 0 }
}
