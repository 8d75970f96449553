// SPDX-License-Identifier: Apache-2.0
//! Histograms with logarithmic bins, each octave split into equal parts.

/// A histogram whose octaves have 2^S bins; values below 2^S have a bin each. Relative bin width is at most 2^-S.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram<const S: u32> {
    counts: Vec<u64>,
}

/// Bits of a value: those of a queue delay.
const VALUE_BITS: usize = 48;

/// Bins of a histogram.
pub const fn bins(sub_bits: u32) -> usize {
    ((VALUE_BITS - sub_bits as usize) << sub_bits) + (1 << sub_bits)
}

/// Bin of `value`; the last one for values that are wider than a report's fields, which only a damaged file has.
#[inline]
pub fn bin(sub_bits: u32, value: u64) -> usize {
    let value = value.min((1 << VALUE_BITS) - 1);
    // Below 2^S the octave term is 0 and the value itself is the bin.
    let octave = (value | (1 << sub_bits) >> 1).ilog2().saturating_sub(sub_bits - 1);
    if octave == 0 {
        return value as usize;
    }
    let part = (value >> (octave - 1)) & ((1 << sub_bits) - 1);
    ((octave as usize) << sub_bits) + part as usize
}

/// Smallest value in `bin`.
pub fn lower(sub_bits: u32, bin: usize) -> u64 {
    let octave = bin >> sub_bits;
    let part = (bin & ((1 << sub_bits) - 1)) as u64;
    if octave == 0 {
        part
    } else {
        ((1 << sub_bits) + part) << (octave - 1)
    }
}

impl<const S: u32> Default for Histogram<S> {
    fn default() -> Self {
        Histogram { counts: vec![0; bins(S)] }
    }
}

impl<const S: u32> Histogram<S> {
    /// Counts a value.
    #[inline]
    pub fn add(&mut self, value: u64) {
        self.counts[bin(S, value)] += 1;
    }

    /// Every bin that is not empty: smallest value, smallest value of the next bin, count.
    pub fn filled(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        let filled = self.counts.iter().enumerate().filter(|(_, &count)| count > 0);
        filled.map(|(bin, &count)| (lower(S, bin), lower(S, bin + 1), count))
    }

    /// The greatest value of every bin, empty ones too.
    pub fn edges() -> impl Iterator<Item = u64> {
        (1..=bins(S)).map(|next| lower(S, next) - 1)
    }

    /// The value that a share `quantile` of the counted values does not exceed: the largest value of its bin.
    pub fn quantile(&self, quantile: f64) -> u64 {
        let total: u64 = self.counts.iter().sum();
        let rank = ((total as f64 * quantile).ceil() as u64).clamp(1, total.max(1));
        let mut seen = 0;
        for (_, upper, count) in self.filled() {
            seen += count;
            if seen >= rank {
                return upper - 1;
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_are_contiguous_and_hold_their_values() {
        for sub_bits in [2, 7, 13] {
            let edges = (0..49).flat_map(|e| [1_u64 << e, (1 << e) - 1, (1 << e) + 1]);
            let values = edges.chain(0..5000).filter(|&v| v < 1 << VALUE_BITS);
            for value in values {
                let index = bin(sub_bits, value);
                assert!(index < bins(sub_bits));
                assert!(lower(sub_bits, index) <= value && value < lower(sub_bits, index + 1), "{value}");
            }
        }
        assert_eq!(bin(2, u64::MAX), bins(2) - 1);
        assert_eq!((bins(2), lower(2, 4), lower(2, 8)), (188, 4, 8));
    }

    #[test]
    fn quantiles_are_within_a_bin_of_the_truth() {
        let mut histogram = Histogram::<7>::default();
        (1..=10_000).for_each(|value| histogram.add(value));
        for (quantile, truth) in [(0.5, 5000.0), (0.99, 9900.0), (1.0, 10_000.0)] {
            let found = histogram.quantile(quantile) as f64;
            assert!((found - truth).abs() <= truth / 128.0, "{quantile}: {found}");
        }
        assert_eq!(Histogram::<7>::default().quantile(0.5), 0);
    }
}
