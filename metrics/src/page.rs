// SPDX-License-Identifier: Apache-2.0
//! Metrics at one moment, written in the text format by Prometheus' own library.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

/// Labels: names and values that distinguish the samples of a family.
pub type Labels = Vec<(&'static str, String)>;

/// Families of samples, in the order in which they were added.
#[derive(Debug, Default)]
pub struct Page {
    families: Vec<Family>,
}

#[derive(Debug)]
struct Family {
    name: &'static str,
    help: &'static str,
    kind: MetricType,
    samples: Vec<(Labels, Sample)>,
}

#[derive(Debug)]
enum Sample {
    Counter(u64),
    Gauge(f64),
    Histogram { sum: f64, buckets: Vec<(f64, u64)> },
}

impl Page {
    /// Counters; `_total` is appended to the name.
    pub fn counters(&mut self, name: &'static str, help: &'static str, samples: impl Iterator<Item = (Labels, u64)>) {
        let samples = samples.map(|(labels, value)| (labels, Sample::Counter(value))).collect();
        self.families.push(Family { name, help, kind: MetricType::Counter, samples });
    }

    /// Gauges.
    pub fn gauges(&mut self, name: &'static str, help: &'static str, samples: impl Iterator<Item = (Labels, f64)>) {
        let samples = samples.map(|(labels, value)| (labels, Sample::Gauge(value))).collect();
        self.families.push(Family { name, help, kind: MetricType::Gauge, samples });
    }

    /// Histograms: each has the sum of its values and its buckets, with their largest value and how many are in this bucket
    /// alone. The last bucket has to reach to infinity.
    pub fn histograms(
        &mut self,
        name: &'static str,
        help: &'static str,
        samples: impl Iterator<Item = (Labels, f64, Vec<(f64, u64)>)>,
    ) {
        let samples = samples.map(|(labels, sum, buckets)| (labels, Sample::Histogram { sum, buckets })).collect();
        self.families.push(Family { name, help, kind: MetricType::Histogram, samples });
    }

    /// The page as text.
    ///
    /// # Errors
    /// The library's.
    pub fn text(self) -> Result<String, fmt::Error> {
        let (mut registry, mut text) = (Registry::default(), String::new());
        registry.register_collector(Box::new(self));
        prometheus_client::encoding::prometheus_text::encode(&mut text, &registry)?;
        Ok(text)
    }
}

impl Collector for Page {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for family in self.families.iter().filter(|family| !family.samples.is_empty()) {
            let mut described = encoder.encode_descriptor(family.name, family.help, None, family.kind)?;
            for (labels, sample) in &family.samples {
                let labels = labels.as_slice();
                let mut metric = described.encode_family(&labels)?;
                match sample {
                    Sample::Counter(value) => metric.encode_counter::<NoLabelSet, u64, u64>(value, None)?,
                    Sample::Gauge(value) => metric.encode_gauge(value)?,
                    Sample::Histogram { sum, buckets } => {
                        let count = buckets.iter().map(|(_, count)| count).sum();
                        metric.encode_histogram::<NoLabelSet>(*sum, count, buckets, None)?;
                    }
                }
            }
        }
        Ok(())
    }
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
