//! The switch clock, CLOCK_MONOTONIC in nanoseconds, and how the kernel's receive timestamps map to it.
// SPDX-License-Identifier: Apache-2.0

fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec for the call to fill; both clocks exist on every Linux.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Now, on the switch clock.
#[inline]
pub fn now_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// Sleeps until `due_ns` on the switch clock.
pub fn sleep_until(due_ns: u64) {
    let time = libc::timespec {
        tv_sec: (due_ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (due_ns % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: `time` is a valid timespec; with an absolute time nothing is written about the rest.
    while unsafe { libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &time, std::ptr::null_mut()) }
        == libc::EINTR
    {}
}

/// CLOCK_REALTIME minus the switch clock at one moment: AF_PACKET stamps frames with the former.
#[derive(Debug, Clone, Copy)]
pub struct WallOffset(i64);

impl WallOffset {
    /// Reads both clocks. Steps of the wall clock show in timestamps taken before and used after: callers clamp.
    #[inline]
    pub fn measure(now_ns: u64) -> Self {
        WallOffset(read(libc::CLOCK_REALTIME).wrapping_sub(now_ns) as i64)
    }

    /// Reads the switch clock before and after the other one: as exact as it gets where every reading takes the same time.
    pub fn between_readings() -> Self {
        let before = now_ns();
        let wall = read(libc::CLOCK_REALTIME);
        let between = before + (now_ns() - before) / 2;
        WallOffset(wall.wrapping_sub(between) as i64)
    }

    /// A CLOCK_REALTIME timestamp on the switch clock.
    #[inline]
    pub fn to_switch(self, seconds: u32, nanoseconds: u32) -> u64 {
        let wall = i64::from(seconds) * 1_000_000_000 + i64::from(nanoseconds);
        wall.saturating_sub(self.0).max(0) as u64
    }
}
