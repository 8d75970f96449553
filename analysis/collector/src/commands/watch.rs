// SPDX-License-Identifier: Apache-2.0
//! Options for watching reports as they arrive.

use std::fmt::Display;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::channel;

use clap::Args;
use narrows_metrics::{Address, Endpoint, DEFAULT_ADDRESS};

use crate::live::{serve, ArrowFile, Figures, Listener, Live, Postcards, Shared, Units};
use crate::{Error, Result};

#[derive(Args)]
pub struct WatchArgs {
    /// Serve totals of links and flows at /metrics in Prometheus' text format: host:port or unix:/path/to.sock.
    #[arg(long, num_args = 0..=1, default_missing_value = DEFAULT_ADDRESS, value_name = "ADDRESS")]
    metrics: Option<Address>,
    /// Flows of a link that are shown there one by one; later ones are summed up under the name other.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(..=65_536), value_name = "N")]
    metrics_flows: u32,
    /// Send every report as an INT postcard (Telemetry Report Format 2.0) over UDP to host:port.
    #[arg(long = "int", value_name = "ADDRESS", conflicts_with = "rings")]
    postcards: Option<String>,
    /// Of --int: the switch's node ID.
    #[arg(long, default_value_t = 1, value_name = "ID")]
    node_id: u32,
    /// Send all rows as an Arrow IPC stream over TCP to a program that listens at host:port.
    #[arg(long, value_name = "ADDRESS")]
    arrow: Option<String>,
    /// Write all rows into a new file as an Arrow IPC stream; after SIGUSR1 a line says how far it is complete.
    #[arg(long, value_name = "FILE")]
    arrow_file: Option<PathBuf>,
    /// Seconds in a time unit of the switch, for what is shown live.
    #[arg(long, default_value_t = 1e-9, value_name = "S")]
    time_unit_s: f64,
    /// Bytes in a depth unit; without it no depth is shown live.
    #[arg(long, value_name = "BYTES")]
    depth_unit_bytes: Option<u32>,
    /// Time units that reports give as queue delay while nothing waits; subtracted from what is shown live.
    #[arg(long, default_value_t = 0, value_name = "UNITS")]
    empty_queue_delay: u64,
}

/// What is open, and starts once the privileges are given up.
pub struct Watch {
    endpoint: Option<Endpoint>,
    listener: Option<Listener>,
    arrow_file: Option<ArrowFile>,
    postcards: Option<Postcards>,
    figures: Figures,
    most_flows: usize,
}

impl WatchArgs {
    /// Opens what is asked for.
    ///
    /// # Errors
    /// [`Error::Input`] for an address that cannot be used, or invalid units.
    pub fn open(&self) -> Result<Watch> {
        if !(self.time_unit_s > 0.0 && self.time_unit_s <= 1.0) {
            return Err(Error::Input(format!("--time-unit-s {}: allowed are more than 0 to 1", self.time_unit_s)));
        }
        let units = Units {
            time_unit_s: self.time_unit_s,
            depth_unit_bytes: self.depth_unit_bytes,
            empty_queue_delay: self.empty_queue_delay,
        };
        let endpoint = self.metrics.as_ref().map(|address| named("metrics", address, Endpoint::open(address)));
        let listener = self.arrow.as_ref().map(|address| named("arrow", address, Listener::connect(address)));
        let arrow_file =
            self.arrow_file.as_ref().map(|file| named("arrow-file", &file.display(), ArrowFile::create(file)));
        let postcards = self.postcards.as_ref().map(|to| named("int", to, Postcards::open(to, self.node_id, units)));
        Ok(Watch {
            endpoint: endpoint.transpose()?,
            listener: listener.transpose()?,
            arrow_file: arrow_file.transpose()?,
            postcards: postcards.transpose()?,
            figures: Figures::new(units),
            most_flows: self.metrics_flows as usize,
        })
    }
}

impl Watch {
    /// Starts the threads.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn start(self) -> Result<Live> {
        let failed = |error| Error::Input(format!("a thread for those who watch: {error}"));
        let mut live = Live { postcards: self.postcards, ..Live::default() };
        if let Some(endpoint) = self.endpoint {
            let (announce, new_keys) = channel();
            let shared = Shared::new(self.figures, new_keys, self.most_flows);
            serve(endpoint, shared.clone()).map_err(failed)?;
            live.announce = Some(announce);
            live.observers.push(Box::new(shared.clone()));
            live.metrics = Some(shared);
        }
        if let Some(file) = self.arrow_file {
            live.observers.push(Box::new(file));
        }
        if let Some(listener) = self.listener {
            live.observers.push(Box::new(listener.start().map_err(failed)?));
        }
        Ok(live)
    }
}

fn named<T>(option: &str, address: &impl Display, opened: io::Result<T>) -> Result<T> {
    opened.map_err(|error| Error::Input(format!("--{option} {address}: {error}")))
}
