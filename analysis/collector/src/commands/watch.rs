// SPDX-License-Identifier: Apache-2.0
//! Options of those who watch reports come in.

use std::sync::mpsc::channel;

use clap::Args;
use narrows_metrics::{Address, Endpoint, DEFAULT_ADDRESS};

use crate::live::{serve, Figures, Live, Shared, Units};
use crate::{Error, Result};

#[derive(Args)]
pub struct WatchArgs {
    /// Serve totals of links and flows at /metrics in Prometheus' text format: host:port or unix:/path/to.sock.
    #[arg(long, num_args = 0..=1, default_missing_value = DEFAULT_ADDRESS, value_name = "ADDRESS")]
    metrics: Option<Address>,
    /// Flows of a link with figures of their own there; those that come later are one, named other.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(..=65_536), value_name = "N")]
    metrics_flows: u32,
    /// Seconds in a time unit of the switch, for what is shown live.
    #[arg(long, default_value_t = 1e-9, value_name = "S")]
    time_unit_s: f64,
    /// Bytes in a depth unit; without it no depth is shown live.
    #[arg(long, value_name = "BYTES")]
    depth_unit_bytes: Option<u32>,
    /// Time units that reports give as queue delay while nothing waits; taken off what is shown live.
    #[arg(long, default_value_t = 0, value_name = "UNITS")]
    empty_queue_delay: u32,
}

/// What is open, and served once there is something to show.
pub struct Watch {
    endpoint: Endpoint,
    pub live: Live,
}

impl WatchArgs {
    /// Opens what is asked for.
    ///
    /// # Errors
    /// [`Error::Input`] for an address that cannot be had, or units that are none.
    pub fn open(&self) -> Result<Option<Watch>> {
        let Some(address) = &self.metrics else {
            return Ok(None);
        };
        if !(self.time_unit_s > 0.0 && self.time_unit_s <= 1.0) {
            return Err(Error::Input(format!("--time-unit-s {}: allowed are more than 0 to 1", self.time_unit_s)));
        }
        let endpoint =
            Endpoint::open(address).map_err(|error| Error::Input(format!("--metrics {address}: {error}")))?;
        let units = Units {
            time_unit_s: self.time_unit_s,
            depth_unit_bytes: self.depth_unit_bytes,
            empty_queue_delay: self.empty_queue_delay,
        };
        let (announce, new_keys) = channel();
        let metrics = Shared::new(Figures::new(units), new_keys, self.metrics_flows as usize);
        Ok(Some(Watch { endpoint, live: Live { announce, metrics } }))
    }
}

impl Watch {
    /// Serves until the program ends.
    ///
    /// # Errors
    /// If there can be no thread.
    pub fn serve(self) -> Result<()> {
        let served = serve(self.endpoint, self.live.metrics);
        served.map_err(|error| Error::Input(format!("--metrics: {error}")))
    }
}
