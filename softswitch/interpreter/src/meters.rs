// SPDX-License-Identifier: Apache-2.0
//! Meters: token buckets of two rates and three colors (RFC 2698), or of one rate (RFC 2697), exact in nanoseconds.

use narrows_program::control::{MeterConfig, MeterInfo};

const NANOSECONDS: u128 = 1_000_000_000;

const GREEN: u64 = 0;
const YELLOW: u64 = 1;
const RED: u64 = 2;

/// A token bucket: what it holds is in tokens times 10^9, so that a rate a second times nanoseconds is exact.
#[derive(Debug, Clone, Copy, Default)]
struct Bucket {
    holds: u128,
    burst: u64,
}

impl Bucket {
    fn full(burst: u64) -> Self {
        Self { holds: u128::from(burst) * NANOSECONDS, burst }
    }

    /// Takes in new tokens; returns those for which there is no room.
    fn fill(&mut self, tokens: u128) -> u128 {
        let most = u128::from(self.burst) * NANOSECONDS;
        let all = self.holds.saturating_add(tokens);
        self.holds = all.min(most);
        all - self.holds
    }

    fn has(&self, tokens: u64) -> bool {
        self.holds >= u128::from(tokens) * NANOSECONDS
    }

    fn take(&mut self, tokens: u64) {
        self.holds -= u128::from(tokens) * NANOSECONDS;
    }
}

/// A cell: without a configuration every packet is green, as P4Runtime says.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cell {
    config: Option<MeterConfig>,
    committed: Bucket,
    /// The bucket of peaks (RFC 2698), or of what exceeds (RFC 2697).
    other: Bucket,
    filled_ns: u64,
}

impl Cell {
    pub(crate) fn new(config: Option<MeterConfig>) -> Self {
        let (committed, other) = match config {
            None => (0, 0),
            Some(MeterConfig::TwoRates { cburst, pburst, .. }) => (cburst, pburst),
            Some(MeterConfig::OneRate { cburst, eburst, .. }) => (cburst, eburst),
        };
        // Buckets start full, both RFCs say.
        Self { config, committed: Bucket::full(committed), other: Bucket::full(other), filled_ns: 0 }
    }

    /// What it is configured as.
    pub(crate) fn config(&self) -> Option<MeterConfig> {
        self.config
    }

    /// The color of a packet of so many bytes, which are the tokens if it meters them.
    pub(crate) fn pass(&mut self, now_ns: u64, by_bytes: bool, bytes: u32) -> u64 {
        self.color(now_ns, if by_bytes { u64::from(bytes) } else { 1 })
    }

    fn color(&mut self, now_ns: u64, tokens: u64) -> u64 {
        let since = u128::from(now_ns.saturating_sub(self.filled_ns));
        self.filled_ns = self.filled_ns.max(now_ns);
        match self.config {
            None => GREEN,
            Some(MeterConfig::TwoRates { cir, pir, .. }) => {
                self.committed.fill(u128::from(cir) * since);
                self.other.fill(u128::from(pir) * since);
                if !self.other.has(tokens) {
                    return RED;
                }
                self.other.take(tokens);
                if !self.committed.has(tokens) {
                    return YELLOW;
                }
                self.committed.take(tokens);
                GREEN
            }
            Some(MeterConfig::OneRate { cir, .. }) => {
                let over = self.committed.fill(u128::from(cir) * since);
                self.other.fill(over);
                if self.committed.has(tokens) {
                    self.committed.take(tokens);
                    return GREEN;
                }
                if self.other.has(tokens) {
                    self.other.take(tokens);
                    return YELLOW;
                }
                RED
            }
        }
    }
}

/// All meters of a program but direct ones, whose cells are the entries'.
#[derive(Debug, Clone, Default)]
pub struct Meters(Vec<(bool, Vec<Cell>)>);

impl Meters {
    /// All cells without a configuration.
    #[must_use]
    pub fn new(meters: &[MeterInfo]) -> Self {
        Self(meters.iter().map(|meter| (meter.bytes, vec![Cell::default(); meter.size])).collect())
    }

    /// The color of a packet of so many bytes; `None` beyond the array.
    pub fn execute(&mut self, meter: usize, index: u64, now_ns: u64, bytes: u32) -> Option<u64> {
        let (by_bytes, cells) = self.0.get_mut(meter)?;
        let cell = cells.get_mut(usize::try_from(index).ok()?)?;
        Some(cell.pass(now_ns, *by_bytes, bytes))
    }

    /// What a cell is configured as; `None` beyond the array.
    #[must_use]
    pub fn config(&self, meter: usize, index: u64) -> Option<Option<MeterConfig>> {
        Some(self.0.get(meter)?.1.get(usize::try_from(index).ok()?)?.config)
    }

    /// A cell with what is in its buckets; `None` beyond the array.
    #[must_use]
    pub fn cell(&self, meter: usize, index: u64) -> Option<Cell> {
        self.0.get(meter)?.1.get(usize::try_from(index).ok()?).copied()
    }

    /// Puts back what [`Meters::cell`] gave.
    pub fn put_back(&mut self, meter: usize, index: u64, cell: Cell) -> Option<()> {
        *self.0.get_mut(meter)?.1.get_mut(usize::try_from(index).ok()?)? = cell;
        Some(())
    }

    /// Configures a cell, whose buckets are full then, or takes its configuration away.
    pub fn configure(&mut self, meter: usize, index: u64, config: Option<MeterConfig>) -> Option<()> {
        *self.0.get_mut(meter)?.1.get_mut(usize::try_from(index).ok()?)? = Cell::new(config);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use narrows_program::control::MeterId;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn meter(bytes: bool, config: MeterConfig) -> Meters {
        let mut meters = Meters::new(&[MeterInfo { id: MeterId(0), name: String::new(), size: 2, table: None, bytes }]);
        assert_eq!(meters.configure(0, 1, Some(config)), Some(()));
        meters
    }

    /// RFC 2698, color-blind: red if fewer than B tokens of the peak are left, yellow if fewer of the committed ones.
    #[test]
    fn two_rates_mark_as_rfc_2698_says() {
        let config = MeterConfig::TwoRates { cir: 100, cburst: 150, pir: 200, pburst: 300 };
        let mut meters = meter(true, config);
        let mut at = |ns, bytes| meters.execute(0, 1, ns, bytes);
        // Full: 150 and 300. Then 50 and 200, 50 and 100 (yellow takes no committed token), 50 and 0.
        assert_eq!(
            [at(0, 100), at(0, 100), at(0, 100), at(0, 1)],
            [Some(GREEN), Some(YELLOW), Some(YELLOW), Some(RED)]
        );
        // After half a second: 100 and 100.
        assert_eq!([at(SECOND / 2, 100), at(SECOND / 2, 1)], [Some(GREEN), Some(RED)]);
        // To the nanosecond: 200 a second is one token each 5 ms.
        assert_eq!([at(SECOND / 2 + 4_999_999, 1), at(SECOND / 2 + 5_000_000, 1)], [Some(RED), Some(YELLOW)]);
    }

    /// RFC 2697: green while the committed bucket lasts, then yellow while that of the excess does; what the first has no room for
    /// fills the second.
    #[test]
    fn one_rate_marks_as_rfc_2697_says() {
        let mut meters = meter(false, MeterConfig::OneRate { cir: 10, cburst: 2, eburst: 1 });
        let mut at = |ns| meters.execute(0, 1, ns, 1_500);
        assert_eq!([at(0), at(0), at(0), at(0)], [Some(GREEN), Some(GREEN), Some(YELLOW), Some(RED)]);
        // 3 tokens in 0.3 s: two for the first bucket, one for the second.
        let later = 3 * SECOND / 10;
        assert_eq!([at(later), at(later), at(later), at(later)], [Some(GREEN), Some(GREEN), Some(YELLOW), Some(RED)]);
    }

    #[test]
    fn cells_without_configuration_are_green_and_there_is_nothing_beyond_the_array() {
        let mut meters = meter(true, MeterConfig::OneRate { cir: 0, cburst: 0, eburst: 0 });
        assert_eq!((meters.execute(0, 0, 5, u32::MAX), meters.execute(0, 1, 5, 1)), (Some(GREEN), Some(RED)));
        assert_eq!((meters.execute(0, 2, 5, 1), meters.execute(1, 0, 5, 1)), (None, None));
        assert_eq!((meters.config(0, 0), meters.config(0, 2)), (Some(None), None));
    }
}
