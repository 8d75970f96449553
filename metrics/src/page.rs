// SPDX-License-Identifier: Apache-2.0
//! Metrics at one moment, written in the text format by Prometheus' own library.

use prometheus::proto::{Bucket, Counter, Gauge, Histogram, LabelPair, Metric, MetricFamily, MetricType};
use prometheus::TextEncoder;

/// Labels: names and values that distinguish the samples of a family.
pub type Labels = Vec<(&'static str, String)>;

/// Families of samples, in the order in which they were added; those without a sample are left out.
#[derive(Debug, Default)]
pub struct Page {
    families: Vec<MetricFamily>,
}

impl Page {
    /// Counters; `_total` is appended to the name.
    pub fn counters(&mut self, name: &str, help: &str, samples: impl Iterator<Item = (Labels, u64)>) {
        let metrics = samples.map(|(labels, count)| {
            let (mut metric, mut counter) = (labelled(labels), Counter::default());
            // The format's numbers are all floating point.
            counter.set_value(count as f64);
            metric.set_counter(counter);
            metric
        });
        self.add(&format!("{name}_total"), help, MetricType::COUNTER, metrics.collect());
    }

    /// Gauges.
    pub fn gauges(&mut self, name: &str, help: &str, samples: impl Iterator<Item = (Labels, f64)>) {
        let metrics = samples.map(|(labels, value)| {
            let (mut metric, mut gauge) = (labelled(labels), Gauge::default());
            gauge.set_value(value);
            metric.set_gauge(gauge);
            metric
        });
        self.add(name, help, MetricType::GAUGE, metrics.collect());
    }

    /// Histograms: each has the sum of its values and its buckets, with their largest value and how many are in this bucket
    /// alone. The last bucket has to reach to infinity.
    pub fn histograms(
        &mut self,
        name: &str,
        help: &str,
        samples: impl Iterator<Item = (Labels, f64, Vec<(f64, u64)>)>,
    ) {
        let metrics = samples.map(|(labels, sum, buckets)| {
            let (mut metric, mut histogram, mut count) = (labelled(labels), Histogram::default(), 0);
            let buckets = buckets.into_iter().map(|(upper_bound, alone)| {
                count += alone;
                let mut bucket = Bucket::default();
                bucket.set_upper_bound(upper_bound);
                bucket.set_cumulative_count(count);
                bucket
            });
            // The library adds the one that reaches to infinity: by the count of all samples.
            histogram.set_bucket(buckets.filter(|bucket| bucket.upper_bound().is_finite()).collect());
            histogram.set_sample_count(count);
            histogram.set_sample_sum(sum);
            metric.set_histogram(histogram);
            metric
        });
        self.add(name, help, MetricType::HISTOGRAM, metrics.collect());
    }

    fn add(&mut self, name: &str, help: &str, kind: MetricType, metrics: Vec<Metric>) {
        if metrics.is_empty() {
            return;
        }
        let mut family = MetricFamily::default();
        family.set_name(name.into());
        family.set_help(help.into());
        family.set_field_type(kind);
        family.set_metric(metrics);
        self.families.push(family);
    }

    /// The page as text.
    ///
    /// # Errors
    /// The library's.
    pub fn text(self) -> prometheus::Result<String> {
        TextEncoder::new().encode_to_string(&self.families)
    }
}

fn labelled(labels: Labels) -> Metric {
    let pairs = labels.into_iter().map(|(name, value)| {
        let mut pair = LabelPair::default();
        pair.set_name(name.into());
        pair.set_value(value);
        pair
    });
    Metric::from_label(pairs.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_as_the_format_has_them() {
        let mut page = Page::default();
        page.counters("drops", "Packets dropped", [(vec![("cause", "tail".into())], 3)].into_iter());
        page.gauges("depth_bytes", "Bytes waiting", [(vec![("queue", "a\"b\n".into())], 1.5)].into_iter());
        page.gauges("nothing", "Without a sample", std::iter::empty());
        let buckets = vec![(0.001, 2), (0.002, 1), (f64::INFINITY, 4)];
        page.histograms("delay_seconds", "Waited", [(vec![("queue", "0".into())], 0.25, buckets)].into_iter());
        let expected = "\
            # HELP drops_total Packets dropped\n\
            # TYPE drops_total counter\n\
            drops_total{cause=\"tail\"} 3\n\
            # HELP depth_bytes Bytes waiting\n\
            # TYPE depth_bytes gauge\n\
            depth_bytes{queue=\"a\\\"b\\n\"} 1.5\n\
            # HELP delay_seconds Waited\n\
            # TYPE delay_seconds histogram\n\
            delay_seconds_bucket{queue=\"0\",le=\"0.001\"} 2\n\
            delay_seconds_bucket{queue=\"0\",le=\"0.002\"} 3\n\
            delay_seconds_bucket{queue=\"0\",le=\"+Inf\"} 7\n\
            delay_seconds_sum{queue=\"0\"} 0.25\n\
            delay_seconds_count{queue=\"0\"} 7\n";
        assert_eq!(page.text().expect("text"), expected);
    }
}
