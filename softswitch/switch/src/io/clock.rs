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

/// Readings of both clocks that are this close together are good; at most so many are taken.
const CLOSE_NS: u64 = 500;
const READINGS: u32 = 4;

/// CLOCK_REALTIME minus the switch clock at one moment: AF_PACKET stamps frames with the former.
#[derive(Debug, Clone, Copy)]
pub struct WallOffset(i64);

impl WallOffset {
    /// Reads the switch clock before and after the other one: as exact as it gets where every reading takes the same time. Steps of
    /// the wall clock show in timestamps taken before and used after: callers clamp.
    pub fn between_readings() -> Self {
        Self::measure(now_ns, || read(libc::CLOCK_REALTIME))
    }

    /// The offset by the closest of a few readings: where the thread was held up between two of them is not known.
    fn measure(mut now_ns: impl FnMut() -> u64, mut wall_ns: impl FnMut() -> u64) -> Self {
        let mut closest: Option<(u64, i64)> = None;
        for _ in 0..READINGS {
            let (before, wall) = (now_ns(), wall_ns());
            let took = now_ns().saturating_sub(before);
            if closest.is_none_or(|(least, _)| took < least) {
                closest = Some((took, wall.wrapping_sub(before + took / 2) as i64));
            }
            if took <= CLOSE_NS {
                break;
            }
        }
        WallOffset(closest.map_or(0, |(_, offset)| offset))
    }

    /// A CLOCK_REALTIME timestamp on the switch clock.
    #[inline]
    pub fn to_switch(self, seconds: u32, nanoseconds: u32) -> u64 {
        let wall = i64::from(seconds) * 1_000_000_000 + i64::from(nanoseconds);
        wall.saturating_sub(self.0).max(0) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The wall clock is 5 s ahead; the thread is held up by a millisecond within the first reading only.
    #[test]
    fn a_reading_that_was_held_up_is_not_taken() {
        let time = std::cell::Cell::new(1_000_000_000u64);
        let advance = |ns: u64| {
            time.set(time.get() + ns);
            time.get()
        };
        let mut held_up = [1_000_000, 20, 20, 20].into_iter();
        let wall = || 5_000_000_000 + advance(held_up.next().unwrap_or(20));
        let WallOffset(offset) = WallOffset::measure(|| advance(20), wall);
        assert_eq!(offset, 5_000_000_000);
    }
}
