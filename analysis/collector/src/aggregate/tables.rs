// SPDX-License-Identifier: Apache-2.0
//! The result tables: their columns and the rows of each (analysis/README.md).

use narrows_tables::values::{Column, Kind, Lists, Number, Values};

/// Columns of a table that is filled row by row.
pub trait Rows: Default {
    /// The columns, in order.
    fn columns() -> Vec<Column>;
    /// Takes their values; no rows are left.
    fn take_values(&mut self) -> Vec<Values>;
    /// Number of rows.
    fn len(&self) -> usize;
    /// Whether there are no rows.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

macro_rules! table {
    ($(#[$doc:meta])* $rows:ident of $row:ident { $($name:ident: $type:ty;)* }
     $(with $extra:ident: $extra_type:ty)?) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $row { $(pub $name: $type,)* }

        /// Rows of the table in columns.
        #[derive(Default)]
        pub struct $rows { $($name: Vec<$type>,)* $(pub $extra: $extra_type,)? }

        impl $rows {
            /// Appends a row.
            pub fn push(&mut self, row: $row) {
                $(self.$name.push(row.$name);)*
            }
        }

        impl Rows for $rows {
            fn columns() -> Vec<Column> {
                #[allow(unused_mut)]
                let mut columns = vec![$(Column { name: stringify!($name), kind: <$type as Number>::KIND },)*];
                $(columns.extend(<$extra_type>::columns());)?
                columns
            }

            fn take_values(&mut self) -> Vec<Values> {
                #[allow(unused_mut)]
                let mut values = vec![$(Number::column(std::mem::take(&mut self.$name)),)*];
                $(values.extend(self.$extra.take_values());)?
                values
            }

            fn len(&self) -> usize {
                [$(self.$name.len(),)*][0]
            }
        }
    };
}

table! {
    /// `flow_series.parquet`: a flow in an interval in which it was reported.
    FlowSeries of FlowInterval {
        bottleneck: u8;
        flow: u16;
        signature: u32;
        interval: i64;
        reports: u64;
        departures: u64;
        bytes: u64;
        payload_bytes: u64;
        new_bytes: u64;
        advanced_bytes: u64;
        retransmitted_bytes: u64;
        data_packets: u64;
        retransmitted_packets: u64;
        ce_marks: u64;
        delay_sum: u64;
        delay_min: u64;
        delay_max: u64;
        depth_sum: u64;
        depth_min: u32;
        depth_max: u32;
    } with delay_histogram: SparseHistograms
}

table! {
    /// `bottleneck_series.parquet`: a bottleneck in an interval in which it was reported.
    BottleneckSeries of BottleneckInterval {
        bottleneck: u8;
        interval: i64;
        reports: u64;
        departures: u64;
        bytes: u64;
        payload_bytes: u64;
        retransmitted_bytes: u64;
        ce_marks: u64;
        delay_sum: u64;
        delay_min: u64;
        delay_max: u64;
        depth_sum: u64;
        depth_min: u32;
        depth_max: u32;
    } with delay_histogram: SparseHistograms
}

table! {
    /// `flow_arrivals.parquet`: a flow in an interval in which packets of it arrived at the queue.
    FlowArrivals of FlowArrival {
        bottleneck: u8;
        flow: u16;
        signature: u32;
        interval: i64;
        arrivals: u64;
        drops: u64;
        loss_drops: u64;
        aqm_drops: u64;
    }
}

table! {
    /// `bottleneck_arrivals.parquet`: a bottleneck in an interval in which packets arrived at its queue.
    BottleneckArrivals of BottleneckArrival {
        bottleneck: u8;
        interval: i64;
        arrivals: u64;
        drops: u64;
        loss_drops: u64;
        aqm_drops: u64;
        bytes: u64;
        depth_min: u32;
        depth_max: u32;
    }
}

table! {
    /// `flow_totals.parquet`: a flow over the whole source.
    FlowTotals of FlowTotal {
        bottleneck: u8;
        flow: u16;
        signature: u32;
        collision: u8;
        finished: u8;
        lost_first: u64;
        first_arrival: u64;
        first_timestamp: u64;
        last_timestamp: u64;
        last_data_timestamp: u64;
        last_new_timestamp: u64;
        last_length: u16;
        reports: u64;
        bytes: u64;
        squared_bytes: u64;
        payload_bytes: u64;
        new_bytes: u64;
        advanced_bytes: u64;
        retransmitted_bytes: u64;
        data_packets: u64;
        retransmitted_packets: u64;
        arrivals: u64;
        departures: u64;
        drops: u64;
        loss_drops: u64;
        aqm_drops: u64;
        ce_marks: u64;
        delay_sum: u64;
        delay_min: u64;
        delay_max: u64;
        depth_sum: u64;
        depth_min: u32;
        depth_max: u32;
    } with delay_histogram: SparseHistograms
}

table! {
    /// `histograms.parquet`: a bin of a bottleneck's delay (quantity 0) or depth (quantity 1).
    HistogramBins of HistogramBin {
        bottleneck: u8;
        quantity: u8;
        lower: u64;
        upper: u64;
        count: u64;
    }
}

table! {
    /// `envelope.parquet`: extremes of a bottleneck in a time bucket.
    EnvelopeBuckets of EnvelopeBucket {
        bottleneck: u8;
        start: u64;
        width: u64;
        reports: u64;
        delay_min: u64;
        delay_max: u64;
        depth_min: u32;
        depth_max: u32;
    }
}

/// Two list columns: numbers of the bins that are not empty, and their counts.
#[derive(Default)]
pub struct SparseHistograms {
    bins: Lists<u8>,
    counts: Lists<u64>,
}

impl SparseHistograms {
    /// Appends the histogram of the next row.
    pub fn push(&mut self, bins: impl Iterator<Item = (u8, u64)>) {
        for (bin, count) in bins {
            self.bins.values.push(bin);
            self.counts.values.push(count);
        }
        self.bins.ends.push(self.bins.values.len());
        self.counts.ends.push(self.counts.values.len());
    }

    fn columns() -> [Column; 2] {
        let list = |name, bits| Column { name, kind: Kind::List { bits } };
        [list("delay_bins", 8), list("delay_counts", 64)]
    }

    fn take_values(&mut self) -> [Values; 2] {
        let taken = std::mem::take(self);
        [Values::U8Lists(taken.bins), Values::U64Lists(taken.counts)]
    }
}
