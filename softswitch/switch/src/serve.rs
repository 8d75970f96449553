//! `narrows-softswitch serve`: Linux interfaces as ports, gRPC as control.
// SPDX-License-Identifier: Apache-2.0
use std::io::{self, Write};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use clap::Args;
use tokio::net::{TcpListener, UnixListener};
use tokio::signal::unix::{signal, SignalKind};
use tokio_stream::wrappers::{TcpListenerStream, UnixListenerStream};
use tonic::transport::server::Router;
use tonic::transport::Server;

use crate::failure::Failure;
use crate::io::{spawn, LoopSettings, Port, DIGEST_CHANNEL};
use crate::p4runtime::{send_digests, Control, P4RuntimeService};
use crate::proto::narrows::v1::traffic_manager_server::TrafficManagerServer;
use crate::proto::p4::v1::p4_runtime_server::P4RuntimeServer;
use crate::switch::{PortKind, Switch};
use crate::tm::PORTS;
use crate::tm_service::TrafficManagerService;

/// Longest gRPC message, in bytes: a pipeline configuration is the largest.
const MESSAGE_LIMIT: usize = 64 << 20;

/// Arguments of `serve`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Where gRPC is served: unix:/path/to.sock or host:port
    #[arg(long)]
    grpc: Address,
    /// A port of the switch on a Linux interface: NUMBER@INTERFACE (repeatable)
    #[arg(long = "port", value_name = "N@IF")]
    ports: Vec<PortSpec>,
    /// A port whose output comes in again on the same port (repeatable)
    #[arg(long = "loopback", value_name = "N", value_parser = clap::value_parser!(u16).range(0..PORTS as i64))]
    loopbacks: Vec<u16>,
    /// P4Runtime device id
    #[arg(long, default_value_t = 1)]
    device_id: u64,
    /// Seed of the program's random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Frames that all queues and delay lines together can hold
    #[arg(long, default_value_t = 262_144, value_parser = clap::value_parser!(u32).range(1..))]
    pool: u32,
    /// Receive ring of each interface, in MiB
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1024))]
    ring_mib: u16,
    /// Keep polling for this many microseconds after the last packet before sleeping
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    busy_poll_us: u32,
    /// Send with AF_PACKET only, not with AF_XDP where it works
    #[arg(long)]
    no_af_xdp: bool,
    /// Ask for real-time priority while there is little to do
    #[arg(long)]
    real_time: bool,
    /// Wake up at most this many microseconds before a packet is due and spin until then
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    spin_us: u32,
}

/// A port number and its interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortSpec {
    number: u16,
    interface: String,
}

impl FromStr for PortSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || format!("expected NUMBER@INTERFACE with a number from 0 to {}", PORTS - 1);
        let (number, interface) = text.split_once('@').ok_or_else(expected)?;
        let number = number.parse().ok().filter(|number| usize::from(*number) < PORTS).ok_or_else(expected)?;
        if interface.is_empty() || interface.len() >= libc::IFNAMSIZ {
            return Err(format!("an interface name has 1 to {} characters", libc::IFNAMSIZ - 1));
        }
        Ok(PortSpec { number, interface: interface.to_owned() })
    }
}

/// Where gRPC is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A Unix socket.
    Unix(PathBuf),
    /// host:port.
    Tcp(String),
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            return match path.is_empty() {
                true => Err("expected unix:/path/to.sock".into()),
                false => Ok(Address::Unix(path.into())),
            };
        }
        match text.rsplit_once(':') {
            Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => Ok(Address::Tcp(text.into())),
            _ => Err("expected unix:/path/to.sock or host:port".into()),
        }
    }
}

fn check_numbers(args: &ServeArgs) -> Result<(), Failure> {
    let mut numbers: Vec<u16> =
        args.ports.iter().map(|port| port.number).chain(args.loopbacks.iter().copied()).collect();
    numbers.sort_unstable();
    match numbers.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(Failure::usage(format!("port {} is given twice", pair[0]))),
        None => Ok(()),
    }
}

fn open_port(spec: &PortSpec, ring_bytes: usize, express: bool) -> Result<Port, Failure> {
    Port::open(spec.number, &spec.interface, ring_bytes, express).map_err(|error| {
        let place = format!("port {}: interface {}", spec.number, spec.interface);
        match error.raw_os_error() {
            Some(libc::ENODEV) => Failure::usage(format!("{place} does not exist in this network namespace")),
            Some(libc::EPERM | libc::EACCES) => {
                Failure::usage(format!("{place}: no permission for raw packets: run as root or with CAP_NET_RAW"))
            }
            _ => Failure::internal(format!("{place}: {error}")),
        }
    })
}

/// Removes the socket of a server that is gone; refuses to touch anything else.
fn remove_stale(path: &Path) -> Result<(), Failure> {
    let Ok(metadata) = std::fs::symlink_metadata(path) else {
        return Ok(());
    };
    if !metadata.file_type().is_socket() {
        return Err(Failure::usage(format!("--grpc unix:{}: exists and is not a socket", path.display())));
    }
    if UnixStream::connect(path).is_ok() {
        return Err(Failure::usage(format!("--grpc unix:{}: another server is listening there", path.display())));
    }
    std::fs::remove_file(path).map_err(|error| cannot_listen(&path.display().to_string(), &error))
}

fn cannot_listen(address: &str, error: &io::Error) -> Failure {
    Failure::usage(format!("--grpc {address}: {error}"))
}

fn announce() -> Result<(), Failure> {
    let mut stdout = io::stdout();
    let written = writeln!(stdout, "ready").and_then(|()| stdout.flush());
    written.map_err(|error| Failure::internal(format!("standard output: {error}")))
}

async fn listen(
    router: Router,
    address: &Address,
    stopped: impl std::future::Future<Output = ()>,
) -> Result<(), Failure> {
    let result = match address {
        Address::Unix(path) => {
            remove_stale(path)?;
            let listener =
                UnixListener::bind(path).map_err(|error| cannot_listen(&path.display().to_string(), &error))?;
            announce()?;
            let result = router.serve_with_incoming_shutdown(UnixListenerStream::new(listener), stopped).await;
            // The socket may have been removed by someone else meanwhile.
            let _ = std::fs::remove_file(path);
            result
        }
        Address::Tcp(host) => {
            let listener = TcpListener::bind(host).await.map_err(|error| cannot_listen(host, &error))?;
            announce()?;
            router.serve_with_incoming_shutdown(TcpListenerStream::new(listener), stopped).await
        }
    };
    result.map_err(|error| Failure::internal(format!("gRPC server: {error}")))
}

/// Runs the switch until SIGTERM or SIGINT.
pub fn run(args: &ServeArgs) -> Result<(), Failure> {
    check_numbers(args)?;
    let ring_bytes = usize::from(args.ring_mib) << 20;
    let ports = args.ports.iter().map(|spec| open_port(spec, ring_bytes, !args.no_af_xdp));
    let ports = ports.collect::<Result<Vec<_>, _>>()?;
    let interfaces = args.ports.iter().map(|port| (port.number, PortKind::Interface));
    let loopbacks = args.loopbacks.iter().map(|port| (*port, PortKind::Loopback));
    let kinds: Vec<(u16, PortKind)> = interfaces.chain(loopbacks).collect();
    let switch = Switch::new(&kinds, args.pool as usize);
    let settings = LoopSettings {
        busy_poll_ns: u64::from(args.busy_poll_us) * 1_000,
        spin_ns: u64::from(args.spin_us) * 1_000,
        real_time: args.real_time,
    };
    let (digest_sender, digest_receiver) = tokio::sync::mpsc::channel(DIGEST_CHANNEL);
    let (handle, thread) = spawn(switch, ports, settings, digest_sender)
        .map_err(|error| Failure::internal(format!("data-path thread: {error}")))?;

    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.map_err(|error| Failure::internal(format!("control thread: {error}")))?;
    let served = runtime.block_on(async {
        let signals = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()));
        let (Ok(mut terminate), Ok(mut interrupt)) = signals else {
            return Err(Failure::internal("cannot install signal handlers"));
        };
        let control = Arc::new(Control::new(args.device_id, handle.clone(), args.seed));
        let digests = tokio::spawn(send_digests(Arc::clone(&control), digest_receiver));
        let p4runtime =
            P4RuntimeServer::new(P4RuntimeService::new(Arc::clone(&control))).max_decoding_message_size(MESSAGE_LIMIT);
        let loopbacks: Arc<[u16]> = args.loopbacks.clone().into();
        let traffic_manager = TrafficManagerServer::new(TrafficManagerService::new(control, loopbacks));
        let router = Server::builder().add_service(p4runtime).add_service(traffic_manager);
        let stopped = async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        };
        // Open streams never end by themselves: the server is dropped as soon as it is told to stop.
        let (stop, stopping) = tokio::sync::oneshot::channel::<()>();
        let serving = listen(router, &args.grpc, async {
            let _ = stopping.await;
        });
        let result = tokio::select! {
            result = serving => result,
            () = stopped => Ok(()),
        };
        drop(stop);
        digests.abort();
        if let Address::Unix(path) = &args.grpc {
            if result.is_ok() {
                let _ = std::fs::remove_file(path);
            }
        }
        result
    });
    handle.stop();
    runtime.shutdown_background();
    let ended = thread.join().map_err(|_| Failure::internal("the data path failed"));
    served.and(ended)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_syntax() {
        let spec = PortSpec { number: 511, interface: "veth0".into() };
        assert_eq!("511@veth0".parse(), Ok(spec));
        for wrong in ["", "1", "@veth0", "512@veth0", "-1@veth0", "1@", "1@an-interface-name-too-long", "x@veth0"] {
            assert!(wrong.parse::<PortSpec>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn address_syntax() {
        assert_eq!("unix:/run/a.sock".parse(), Ok(Address::Unix("/run/a.sock".into())));
        assert_eq!("unix:///run/a.sock".parse(), Ok(Address::Unix("/run/a.sock".into())));
        assert_eq!("127.0.0.1:9559".parse(), Ok(Address::Tcp("127.0.0.1:9559".into())));
        for wrong in ["", "unix:", "9559", ":9559", "host:", "host:65536"] {
            assert!(wrong.parse::<Address>().is_err(), "{wrong}");
        }
    }
}
