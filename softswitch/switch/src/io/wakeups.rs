//! When to sleep, when to spin, and what priority to ask for: learned from how late wakeups were and how busy the thread is.
// SPDX-License-Identifier: Apache-2.0

/// Shares of time are taken over this long.
const WINDOW_NS: u64 = 10_000_000;
/// At most this much of a window is spent on spinning: others need the processor, too...
const SPIN_NS: u64 = WINDOW_NS / 5;
/// ...and beyond that at most this long before an event.
const MIN_SPIN_NS: u64 = 10_000;
/// A thread that is awake for more than this much of each window no longer gets real-time priority: the kernel takes
/// the processor from a real-time thread for milliseconds when others have waited for long...
const BUSY_OF_WINDOW_NS: u64 = WINDOW_NS / 5 * 2;
/// ...until it is awake for less than this.
const CALM_NS: u64 = WINDOW_NS / 10 * 3;
/// Windows in a row that decide about that.
const WINDOWS: u32 = 10;
/// The margin follows this quantile of the lateness: one step up weighs as much as this many steps down.
const STEPS_DOWN: u64 = 32;
const STEP_NS: u64 = 2_000;

/// The thread's record of its own time.
#[derive(Debug)]
pub struct Wakeups {
    bound_ns: u64,
    margin_ns: u64,
    window_start: u64,
    asleep_ns: u64,
    spun_ns: u64,
    last_idle: Option<u64>,
    prompt: bool,
    windows: u32,
}

impl Wakeups {
    /// A thread that wakes up at most `bound_ns` before something is due.
    pub fn new(bound_ns: u64, now_ns: u64) -> Self {
        Wakeups {
            bound_ns,
            margin_ns: bound_ns / 2,
            window_start: now_ns,
            asleep_ns: 0,
            spun_ns: 0,
            last_idle: None,
            prompt: true,
            windows: 0,
        }
    }

    /// How long before an event to wake up, and spin until it is due.
    #[inline]
    pub fn margin_ns(&self) -> u64 {
        // A thread among others is woken up the sooner the more it has slept.
        if self.spun_ns > SPIN_NS || !self.prompt {
            self.margin_ns.min(MIN_SPIN_NS)
        } else {
            self.margin_ns
        }
    }

    /// True if the thread should run before all others.
    #[inline]
    pub fn prompt(&self) -> bool {
        self.prompt
    }

    /// The thread has found something to do.
    #[inline]
    pub fn worked(&mut self, now_ns: u64) {
        self.last_idle = None;
        self.turn(now_ns);
    }

    /// The thread has nothing to do at the moment and does not sleep.
    #[inline]
    pub fn spins(&mut self, now_ns: u64) {
        if let Some(last) = self.last_idle {
            self.spun_ns += now_ns - last;
        }
        self.last_idle = Some(now_ns);
        self.turn(now_ns);
    }

    /// The thread slept from `start_ns` to `end_ns`; `timer` is when a timer was to end that, if one did.
    pub fn slept(&mut self, start_ns: u64, end_ns: u64, timer: Option<u64>) {
        self.asleep_ns += end_ns - start_ns.max(self.window_start).min(end_ns);
        self.last_idle = None;
        if let Some(timer) = timer {
            if end_ns > timer + self.margin_ns {
                self.margin_ns = (self.margin_ns + STEP_NS).min(self.bound_ns);
            } else {
                self.margin_ns = self.margin_ns.saturating_sub(STEP_NS / STEPS_DOWN);
            }
        }
        self.turn(end_ns);
    }

    /// Ends the window when its time has come.
    #[inline]
    fn turn(&mut self, now_ns: u64) {
        if now_ns < self.window_start + WINDOW_NS {
            return;
        }
        // A sleep may have lasted longer than the window.
        let length = now_ns - self.window_start;
        let awake_ns = (length - self.asleep_ns.min(length)) * WINDOW_NS / length;
        let changes = if self.prompt { awake_ns > BUSY_OF_WINDOW_NS } else { awake_ns < CALM_NS };
        self.windows = if changes { self.windows + 1 } else { 0 };
        if self.windows >= WINDOWS {
            self.prompt = !self.prompt;
            self.windows = 0;
        }
        (self.window_start, self.asleep_ns, self.spun_ns) = (now_ns, 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUND: u64 = 50_000;

    /// Sleeps of 100 us, each `late` ns longer than asked for.
    fn sleep(wakeups: &mut Wakeups, now: &mut u64, count: u64, late: impl Fn(u64) -> u64) {
        for number in 0..count {
            let timer = *now + 100_000;
            let end = timer + late(number);
            wakeups.slept(*now, end, Some(timer));
            *now = end;
        }
    }

    #[test]
    fn margin_follows_the_lateness_within_its_bound() {
        let (mut wakeups, mut now) = (Wakeups::new(BOUND, 0), 0);
        sleep(&mut wakeups, &mut now, 2_000, |_| 4_000);
        assert!((3_000..=6_500).contains(&wakeups.margin_ns()), "{}", wakeups.margin_ns());
        // 1 in 10 is late: more than the quantile leaves out.
        sleep(&mut wakeups, &mut now, 2_000, |number| if number % 10 == 0 { 30_000 } else { 4_000 });
        assert!((27_000..=34_000).contains(&wakeups.margin_ns()), "{}", wakeups.margin_ns());
        sleep(&mut wakeups, &mut now, 2_000, |_| 1_000_000);
        assert_eq!(wakeups.margin_ns(), BOUND);
    }

    #[test]
    fn spins_no_longer_than_its_share() {
        let mut wakeups = Wakeups::new(BOUND, 0);
        let margin = wakeups.margin_ns();
        for now in (0..=SPIN_NS).step_by(1_000) {
            wakeups.spins(now);
            assert_eq!(wakeups.margin_ns(), margin);
        }
        wakeups.spins(SPIN_NS + 1_000);
        assert_eq!(wakeups.margin_ns(), MIN_SPIN_NS);
        // The next window has a share of its own.
        wakeups.spins(WINDOW_NS);
        assert_eq!(wakeups.margin_ns(), margin);
    }

    #[test]
    fn steps_back_while_it_is_always_busy() {
        let (mut wakeups, mut now) = (Wakeups::new(BOUND, 0), 0);
        let work = |wakeups: &mut Wakeups, now: &mut u64, windows: u64| {
            for _ in 0..windows * 10 {
                *now += WINDOW_NS / 10;
                wakeups.worked(*now);
            }
        };
        work(&mut wakeups, &mut now, 5);
        sleep(&mut wakeups, &mut now, 200, |_| 0);
        work(&mut wakeups, &mut now, 9);
        assert!(wakeups.prompt(), "two short bursts");
        work(&mut wakeups, &mut now, 2);
        assert!(!wakeups.prompt(), "always busy");
        assert!(wakeups.margin_ns() <= MIN_SPIN_NS);
        sleep(&mut wakeups, &mut now, 1_500, |_| 0);
        assert!(wakeups.prompt(), "mostly asleep again");
    }
}
