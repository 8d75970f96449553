// SPDX-License-Identifier: Apache-2.0
//! The result tables: their columns and how rows become Arrow batches (docs/telemetry-schema.md).

use std::sync::Arc;

use arrow_array::types::{
    ArrowPrimitiveType, Int64Type, UInt16Type, UInt32Type, UInt64Type, UInt8Type,
};
use arrow_array::{ArrayRef, ListArray, PrimitiveArray, UInt64Array, UInt8Array};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field};

/// Columns of a table that is filled row by row.
pub trait Rows: Default {
    /// Column definitions, in order.
    fn fields() -> Vec<Field>;
    /// The columns; afterwards there are no rows.
    fn take_arrays(&mut self) -> Vec<ArrayRef>;
    /// Number of rows.
    fn len(&self) -> usize;
    /// Whether there are no rows.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

macro_rules! table {
    ($(#[$doc:meta])* $rows:ident of $row:ident { $($name:ident: $type:ty, $arrow:ident;)* }
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
            fn fields() -> Vec<Field> {
                #[allow(unused_mut)]
                let mut fields = vec![$(Field::new(stringify!($name), <$arrow as ArrowPrimitiveType>::DATA_TYPE, false),)*];
                $(fields.extend(<$extra_type>::fields());)?
                fields
            }

            fn take_arrays(&mut self) -> Vec<ArrayRef> {
                #[allow(unused_mut)]
                let mut arrays: Vec<ArrayRef> = vec![
                    $(Arc::new(PrimitiveArray::<$arrow>::from_iter_values(self.$name.drain(..))),)*
                ];
                $(arrays.extend(self.$extra.take_arrays());)?
                arrays
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
        bottleneck: u8, UInt8Type;
        flow: u16, UInt16Type;
        signature: u32, UInt32Type;
        interval: i64, Int64Type;
        reports: u64, UInt64Type;
        departures: u64, UInt64Type;
        bytes: u64, UInt64Type;
        payload_bytes: u64, UInt64Type;
        new_bytes: u64, UInt64Type;
        advanced_bytes: u64, UInt64Type;
        retransmitted_bytes: u64, UInt64Type;
        data_packets: u64, UInt64Type;
        retransmitted_packets: u64, UInt64Type;
        ce_marks: u64, UInt64Type;
        delay_sum: u64, UInt64Type;
        delay_min: u32, UInt32Type;
        delay_max: u32, UInt32Type;
        depth_sum: u64, UInt64Type;
        depth_min: u32, UInt32Type;
        depth_max: u32, UInt32Type;
    } with delay_histogram: SparseHistograms
}

table! {
    /// `bottleneck_series.parquet`: a bottleneck in an interval in which it was reported.
    BottleneckSeries of BottleneckInterval {
        bottleneck: u8, UInt8Type;
        interval: i64, Int64Type;
        reports: u64, UInt64Type;
        departures: u64, UInt64Type;
        bytes: u64, UInt64Type;
        payload_bytes: u64, UInt64Type;
        retransmitted_bytes: u64, UInt64Type;
        ce_marks: u64, UInt64Type;
        delay_sum: u64, UInt64Type;
        delay_min: u32, UInt32Type;
        delay_max: u32, UInt32Type;
        depth_sum: u64, UInt64Type;
        depth_min: u32, UInt32Type;
        depth_max: u32, UInt32Type;
    } with delay_histogram: SparseHistograms
}

table! {
    /// `flow_arrivals.parquet`: a flow in an interval in which packets of it arrived at the queue.
    FlowArrivals of FlowArrival {
        bottleneck: u8, UInt8Type;
        flow: u16, UInt16Type;
        signature: u32, UInt32Type;
        interval: i64, Int64Type;
        arrivals: u64, UInt64Type;
        drops: u64, UInt64Type;
        loss_drops: u64, UInt64Type;
    }
}

table! {
    /// `bottleneck_arrivals.parquet`: a bottleneck in an interval in which packets arrived at its queue.
    BottleneckArrivals of BottleneckArrival {
        bottleneck: u8, UInt8Type;
        interval: i64, Int64Type;
        arrivals: u64, UInt64Type;
        drops: u64, UInt64Type;
        loss_drops: u64, UInt64Type;
        depth_min: u32, UInt32Type;
        depth_max: u32, UInt32Type;
    }
}

table! {
    /// `flow_totals.parquet`: a flow over the whole source.
    FlowTotals of FlowTotal {
        bottleneck: u8, UInt8Type;
        flow: u16, UInt16Type;
        signature: u32, UInt32Type;
        collision: u8, UInt8Type;
        finished: u8, UInt8Type;
        first_arrival: u64, UInt64Type;
        first_timestamp: u64, UInt64Type;
        last_timestamp: u64, UInt64Type;
        last_data_timestamp: u64, UInt64Type;
        reports: u64, UInt64Type;
        bytes: u64, UInt64Type;
        payload_bytes: u64, UInt64Type;
        new_bytes: u64, UInt64Type;
        advanced_bytes: u64, UInt64Type;
        retransmitted_bytes: u64, UInt64Type;
        data_packets: u64, UInt64Type;
        retransmitted_packets: u64, UInt64Type;
        arrivals: u64, UInt64Type;
        departures: u64, UInt64Type;
        drops: u64, UInt64Type;
        loss_drops: u64, UInt64Type;
        ce_marks: u64, UInt64Type;
        delay_sum: u64, UInt64Type;
        delay_min: u32, UInt32Type;
        delay_max: u32, UInt32Type;
        depth_sum: u64, UInt64Type;
        depth_min: u32, UInt32Type;
        depth_max: u32, UInt32Type;
    } with delay_histogram: SparseHistograms
}

table! {
    /// `histograms.parquet`: a bin of a bottleneck's delay (quantity 0) or depth (quantity 1).
    HistogramBins of HistogramBin {
        bottleneck: u8, UInt8Type;
        quantity: u8, UInt8Type;
        lower: u64, UInt64Type;
        upper: u64, UInt64Type;
        count: u64, UInt64Type;
    }
}

table! {
    /// `envelope.parquet`: extremes of a bottleneck in a time bucket.
    EnvelopeBuckets of EnvelopeBucket {
        bottleneck: u8, UInt8Type;
        start: u64, UInt64Type;
        width: u64, UInt64Type;
        reports: u64, UInt64Type;
        delay_min: u32, UInt32Type;
        delay_max: u32, UInt32Type;
        depth_min: u32, UInt32Type;
        depth_max: u32, UInt32Type;
    }
}

/// Two list columns: numbers of the bins that are not empty, and their counts.
pub struct SparseHistograms {
    offsets: Vec<i32>,
    bins: Vec<u8>,
    counts: Vec<u64>,
}

impl Default for SparseHistograms {
    fn default() -> Self {
        SparseHistograms {
            offsets: vec![0],
            bins: Vec::new(),
            counts: Vec::new(),
        }
    }
}

impl SparseHistograms {
    /// Appends the histogram of the next row.
    pub fn push(&mut self, bins: impl Iterator<Item = (u8, u64)>) {
        for (bin, count) in bins {
            self.bins.push(bin);
            self.counts.push(count);
        }
        self.offsets.push(self.bins.len() as i32);
    }

    fn item(data_type: DataType) -> Arc<Field> {
        Arc::new(Field::new("item", data_type, false))
    }

    fn fields() -> Vec<Field> {
        vec![
            Field::new(
                "delay_bins",
                DataType::List(Self::item(DataType::UInt8)),
                false,
            ),
            Field::new(
                "delay_counts",
                DataType::List(Self::item(DataType::UInt64)),
                false,
            ),
        ]
    }

    fn take_arrays(&mut self) -> Vec<ArrayRef> {
        let taken = std::mem::take(self);
        let offsets = OffsetBuffer::new(taken.offsets.into());
        let bins = Arc::new(UInt8Array::from(taken.bins));
        let counts = Arc::new(UInt64Array::from(taken.counts));
        vec![
            Arc::new(ListArray::new(
                Self::item(DataType::UInt8),
                offsets.clone(),
                bins,
                None,
            )),
            Arc::new(ListArray::new(
                Self::item(DataType::UInt64),
                offsets,
                counts,
                None,
            )),
        ]
    }
}
