// SPDX-License-Identifier: Apache-2.0
//! The extremes of a whole run in a bounded number of time buckets: enough for a plot, however long the run is.

/// Most buckets; a plot has fewer pixels.
pub const BUCKETS: usize = 8192;

/// Extremes within one bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    pub reports: u64,
    pub delay_min: u64,
    pub delay_max: u64,
    pub depth_min: u32,
    pub depth_max: u32,
}

const EMPTY: Bucket = Bucket { reports: 0, delay_min: u64::MAX, delay_max: 0, depth_min: u32::MAX, depth_max: 0 };

/// Buckets that double in width whenever the run outgrows them.
pub struct Envelope {
    origin: u64,
    /// Width of a bucket is 2^shift time units.
    shift: u32,
    buckets: Vec<Bucket>,
}

impl Envelope {
    /// An envelope that begins at `origin`.
    pub fn new(origin: u64) -> Self {
        Envelope { origin, shift: 0, buckets: Vec::with_capacity(BUCKETS) }
    }

    /// Records a departure: its delay, the depth it left behind and the depth just after its arrival. A time before the
    /// origin counts in the first bucket.
    #[inline]
    pub fn add(&mut self, time: u64, delay: u64, depth: u32, after_arrival: u32) {
        let elapsed = time.saturating_sub(self.origin);
        while elapsed >> self.shift >= BUCKETS as u64 {
            self.widen();
        }
        let index = (elapsed >> self.shift) as usize;
        if index >= self.buckets.len() {
            self.buckets.resize(index + 1, EMPTY);
        }
        let bucket = &mut self.buckets[index];
        bucket.reports += 1;
        bucket.delay_min = bucket.delay_min.min(delay);
        bucket.delay_max = bucket.delay_max.max(delay);
        bucket.depth_min = bucket.depth_min.min(depth);
        bucket.depth_max = bucket.depth_max.max(depth).max(after_arrival);
    }

    /// Buckets that are not empty: start, width, extremes.
    pub fn filled(&self) -> impl Iterator<Item = (u64, u64, Bucket)> + '_ {
        let buckets = self.buckets.iter().enumerate().filter(|(_, bucket)| bucket.reports > 0);
        buckets.map(|(index, bucket)| (self.origin + ((index as u64) << self.shift), 1 << self.shift, *bucket))
    }

    fn widen(&mut self) {
        self.shift += 1;
        let pairs: Vec<Bucket> = self.buckets.chunks(2).map(|pair| pair[1..].iter().fold(pair[0], merge)).collect();
        self.buckets.clear();
        self.buckets.extend(pairs);
    }
}

fn merge(a: Bucket, b: &Bucket) -> Bucket {
    Bucket {
        reports: a.reports + b.reports,
        delay_min: a.delay_min.min(b.delay_min),
        delay_max: a.delay_max.max(b.delay_max),
        depth_min: a.depth_min.min(b.depth_min),
        depth_max: a.depth_max.max(b.depth_max),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extremes_survive_any_length() {
        let mut envelope = Envelope::new(1000);
        for time in 0..3_000_000_u64 {
            let spike = if time == 1_234_567 { 9_999 } else { 10 + (time % 7) };
            envelope.add(1000 + time, spike, 5, 6);
        }
        let buckets: Vec<_> = envelope.filled().collect();
        assert!(buckets.len() <= BUCKETS && buckets.len() > BUCKETS / 4);
        assert_eq!(buckets.iter().map(|b| b.2.reports).sum::<u64>(), 3_000_000);
        let spikes: Vec<_> = buckets.iter().filter(|b| b.2.delay_max == 9_999).collect();
        assert_eq!(spikes.len(), 1);
        assert!((spikes[0].0..spikes[0].0 + spikes[0].1).contains(&1_235_567));
        assert!(buckets.iter().all(|b| b.2.delay_min == 10));
    }
}
