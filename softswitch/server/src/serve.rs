//! `narrows-softswitch serve`: Linux interfaces as ports, gRPC as control.
// SPDX-License-Identifier: Apache-2.0
use std::sync::Arc;

use clap::Args;
use narrows_metrics::{Address, Endpoint, DEFAULT_ADDRESS};
use narrows_privileges::{give_up, Capability};
use narrows_proto::narrows::v1::traffic_manager_server::TrafficManagerServer;
use narrows_proto::p4::v1::p4_runtime_server::P4RuntimeServer;
use narrows_switch::failure::Failure;
use narrows_switch::heap;
use narrows_switch::io::{
    control_channels, spawn, AccessSettings, FromDataPath, Handle, LoopSettings, ModerationSettings, Pace, Port,
    PortSettings, Recorder, RingSettings, Running, Sending, VirtualSettings, WhenFull,
};
use narrows_switch::switch::{PortKind, Switch, MAX_DEVICES};
use narrows_switch::tm::PORTS;
use tokio::signal::unix::{signal, SignalKind};
use tonic::transport::Server;

use crate::listener::{announce, check_reach, Listener};
use crate::metrics;
use crate::p4runtime::{send_digests, send_packet_ins, watch_idle, Control, Devices, P4RuntimeService};
use crate::port_options::{AccessRate, Cable, DevicePorts, PortModeration, PortPipe, PortSpec, WatchedField};
use crate::services::Services;
use crate::tls::TlsArgs;
use crate::tm_service::TrafficManagerService;

/// Longest gRPC message, in bytes: a pipeline configuration is the largest.
const MESSAGE_LIMIT: usize = 64 << 20;
/// The longest headers of TCP in IP: Ethernet, VLAN tag, IPv6, TCP with all options.
const MIN_SNAPLEN: i64 = 14 + 4 + 40 + 60;
/// Calls and streams that one client can have open.
const STREAMS_PER_CONNECTION: u32 = 64;
/// Bytes of a stream that may wait to be read: its client has to wait then. HTTP/2's default.
const STREAM_WINDOW: u32 = 65_535;
/// The same of a connection. For DATA frames of less than 256 bytes that wait, as of a controller that sends small packets faster
/// than the program takes them, h2 allows half as many bytes of what they lack, and ends the connection beyond. At this size even
/// one stream of frames of a byte has to wait before that.
const CONNECTION_WINDOW: u32 = 2 * 256 * STREAM_WINDOW;

/// Arguments of `serve`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Where gRPC is served: unix:/path/to.sock (for its owner only) or host:port (of this machine; elsewhere with TLS)
    #[arg(long)]
    grpc: Address,
    /// P4Runtime, and nothing else, is served there as well, for a controller that may not set queues: host:port of this machine
    #[arg(long, value_name = "HOST:PORT", value_parser = tcp_address)]
    p4runtime: Option<Address>,
    #[command(flatten)]
    tls: TlsArgs,
    /// Serve queues, ports and discards at /metrics in Prometheus' text format: host:port or unix:/path/to.sock
    #[arg(long, num_args = 0..=1, default_missing_value = DEFAULT_ADDRESS, value_name = "ADDRESS", conflicts_with = "virtual_time")]
    metrics: Option<Address>,
    /// A port of the switch on a Linux interface: NUMBER@INTERFACE (repeatable)
    #[arg(long = "port", value_name = "N@IF")]
    ports: Vec<PortSpec>,
    /// A port whose output comes in again on the same port (repeatable)
    #[arg(long = "loopback", value_name = "N", value_parser = clap::value_parser!(u16).range(0..PORTS as i64))]
    loopbacks: Vec<u16>,
    /// Two ports that a cable in the switch connects: what leaves by one comes in by the other: NUMBER@NUMBER (repeatable)
    #[arg(long = "cable", value_name = "N@N")]
    cables: Vec<Cable>,
    /// The port by which a program sends packets to its controller and gets packets from it (P4Runtime's packet-in and
    /// packet-out, with the controller headers of its P4Info); one for each device (repeatable)
    #[arg(long = "cpu-port", value_name = "N", value_parser = clap::value_parser!(u16).range(0..PORTS as i64))]
    cpu_ports: Vec<u16>,
    /// P4Runtime device id
    #[arg(long, default_value_t = 1)]
    device_id: u64,
    /// A further device of P4Runtime, with a program of its own: ID@PORT[,PORT...]. Packets cross from one device to another by
    /// cables only; the device of --device-id has all other ports (repeatable)
    #[arg(long = "device", value_name = "ID@N,...")]
    devices: Vec<DevicePorts>,
    /// Seed of the program's random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Frames that all queues and delay lines together can hold
    #[arg(long, default_value_t = 262_144, value_parser = clap::value_parser!(u32).range(1..))]
    pool: u32,
    /// Receive ring of each interface, in MiB
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1024))]
    ring_mib: u16,
    /// Bytes of a received frame that are held, at least as many as the program parses; those behind them are sent as zeros. For
    /// traffic whose payload is zeros
    #[arg(long, requires = "virtual_time", value_parser = clap::value_parser!(u16).range(MIN_SNAPLEN..))]
    snaplen: Option<u16>,
    /// Cards of hosts cut TCP segments that their kernels hand over as one frame (TCP segmentation offload): they are taken as
    /// frames of their own. For hosts whose kernels leave that to their interfaces
    #[arg(long, requires = "snaplen")]
    tso: bool,
    /// Keep polling for this many microseconds after the last packet before sleeping
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    busy_poll_us: u32,
    /// Send with AF_PACKET only, not with AF_XDP where it works
    #[arg(long)]
    no_af_xdp: bool,
    /// Ask for real-time priority while there is little to do
    #[arg(long)]
    real_time: bool,
    /// The clock stands still while anything runs, as in a User-Mode Linux guest in time-travel mode: sleep until the next event,
    /// never spin, no second thread
    #[arg(long, conflicts_with_all = ["busy_poll_us", "real_time", "spin_us"])]
    virtual_time: bool,
    /// With --virtual-time: wake up at this interval, in microseconds, and hand frames over ahead of their time; at most the shortest
    /// delay of a port that frames leave by (telemetry aside). 0: wake up for every event
    #[arg(long, default_value_t = 0, requires = "virtual_time", value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    lookahead_us: u32,
    /// Rate of the link from a port's host in bit/s: a burst arrives spaced accordingly; and what the host takes for a frame
    /// before it is on that link, drawn for each between 0 and JITTER_NS: PORT@RATE[,JITTER_NS] (repeatable)
    #[arg(long = "access-rate", value_name = "N@BPS[,JITTER_NS]", requires = "virtual_time")]
    access_rates: Vec<AccessRate>,
    /// Interrupt moderation of a port's host: frames are delivered together, USECS after the first of them or as soon as there are
    /// FRAMES: PORT@USECS[,FRAMES] (repeatable)
    #[arg(long = "rx-moderation", value_name = "N@USECS[,FRAMES]", requires = "virtual_time")]
    moderations: Vec<PortModeration>,
    /// The card of a port's host joins the TCP segments that it delivers together (large receive offload): PORT (repeatable)
    #[arg(long = "lro", value_name = "N", requires = "moderations")]
    joined: Vec<u16>,
    /// What leaves by a port goes into a pipe with a name, as a capture (pcap), and not to its interface: PORT@PIPE (repeatable)
    #[arg(long = "pipe", value_name = "N@PIPE")]
    pipes: Vec<PortPipe>,
    /// Field of the program's metadata, such as scalars.userMetadata.x: what it has when a packet leaves egress is recorded with the
    /// packet's report, if that goes into a pipe. Of another device than that of --device-id: ID@HEADER.FIELD (repeatable)
    #[arg(long = "watch", value_name = "HEADER.FIELD")]
    watched: Vec<WatchedField>,
    /// Wake up at most this many microseconds before a packet is due and spin until then
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    spin_us: u32,
}

fn tcp_address(text: &str) -> Result<Address, String> {
    match text.parse() {
        Ok(address @ Address::Tcp(_)) => Ok(address),
        Ok(Address::Unix(_)) => Err("expected host:port".into()),
        Err(error) => Err(error.to_string()),
    }
}

fn check_numbers(args: &ServeArgs) -> Result<(), Failure> {
    let modelled = (args.access_rates.iter().map(|rate| ("--access-rate", rate.number)))
        .chain(args.moderations.iter().map(|moderation| ("--rx-moderation", moderation.number)))
        .chain(args.joined.iter().map(|number| ("--lro", *number)))
        .chain(args.pipes.iter().map(|pipe| ("--pipe", pipe.number)));
    for (option, number) in modelled {
        if !args.ports.iter().any(|port| port.number == number) {
            return Err(Failure::usage(format!("{option}: port {number} is not among the --port")));
        }
    }
    let is_moderated = |number: &u16| args.moderations.iter().any(|moderation| moderation.number == *number);
    if let Some(number) = args.joined.iter().find(|number| !is_moderated(number)) {
        return Err(Failure::usage(format!(
            "--lro: port {number} has no --rx-moderation, and so no frames that come together"
        )));
    }
    if args.lookahead_us == 0 && !args.moderations.is_empty() {
        return Err(Failure::usage("--rx-moderation: needs --lookahead-us above 0"));
    }
    let mut numbers = (args.ports.iter().map(|port| port.number).chain(args.loopbacks()))
        .chain(args.cpu_ports.iter().copied())
        .collect::<Vec<_>>();
    numbers.sort_unstable();
    if let Some(pair) = numbers.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(Failure::usage(format!("port {} is given twice", pair[0])));
    }
    check_devices(args, &numbers)
}

/// Checks the devices, given all port numbers of the switch.
fn check_devices(args: &ServeArgs, numbers: &[u16]) -> Result<(), Failure> {
    if args.devices.len() >= MAX_DEVICES {
        return Err(Failure::usage(format!("--device: allowed are up to {}", MAX_DEVICES - 1)));
    }
    let mut taken = vec![];
    for (position, DevicePorts { id, ports }) in args.devices.iter().enumerate() {
        if *id == args.device_id || args.devices[..position].iter().any(|other| other.id == *id) {
            return Err(Failure::usage(format!("--device: device {id} is given twice")));
        }
        for port in ports {
            if !numbers.contains(port) {
                return Err(Failure::usage(format!("--device {id}: the switch has no port {port}")));
            }
            if taken.contains(port) {
                return Err(Failure::usage(format!("--device {id}: port {port} is another device's, or given twice")));
            }
            taken.push(*port);
        }
    }
    for (position, port) in args.cpu_ports.iter().enumerate() {
        let device = args.device_of(*port);
        if args.cpu_ports[..position].iter().any(|other| args.device_of(*other) == device) {
            return Err(Failure::usage(format!("--cpu-port: {port} is the second one of a device")));
        }
    }
    let known = |id: u64| args.device_ids().any(|known| known == id);
    match args.watched.iter().find_map(|watched| watched.device.filter(|id| !known(*id))) {
        Some(id) => Err(Failure::usage(format!("--watch: there is no device {id}"))),
        None => Ok(()),
    }
}

impl ServeArgs {
    /// Ports without an interface, of which what leaves comes in again.
    fn loopbacks(&self) -> impl Iterator<Item = u16> + '_ {
        self.loopbacks.iter().copied().chain(self.cables.iter().flat_map(|cable| [cable.0, cable.1]))
    }

    /// Ids of all devices, in the order of their numbers.
    fn device_ids(&self) -> impl Iterator<Item = u64> + '_ {
        std::iter::once(self.device_id).chain(self.devices.iter().map(|device| device.id))
    }

    /// Id of the device that has a port.
    fn device_of(&self, port: u16) -> u64 {
        let further = self.devices.iter().find(|device| device.ports.contains(&port));
        further.map_or(self.device_id, |device| device.id)
    }

    /// The switch, without interfaces.
    fn switch(&self) -> Switch {
        let interfaces = self.ports.iter().map(|port| (port.number, PortKind::Interface));
        let loopbacks = self.loopbacks().map(|port| (port, PortKind::Loopback));
        let controllers = self.cpu_ports.iter().map(|port| (*port, PortKind::Controller));
        let kinds: Vec<(u16, PortKind)> = interfaces.chain(loopbacks).chain(controllers).collect();
        let mut switch = Switch::new(&kinds, self.pool as usize);
        self.cables.iter().for_each(|cable| switch.connect(cable.0, cable.1));
        for device in &self.devices {
            switch.add_device(&device.ports);
        }
        switch
    }

    /// The control of a device with this number and id.
    fn control(&self, handle: &Handle, (device, id): (usize, u64)) -> Control {
        let mut control = Control::new(id, handle.clone(), self.seed, self.snaplen.map(usize::from));
        control.device = device;
        control.cpu_port = self.cpu_ports.iter().copied().find(|port| self.device_of(*port) == id);
        let watched = self.watched.iter().filter(|watched| watched.device.unwrap_or(self.device_id) == id);
        control.watched = watched.map(|watched| watched.field.clone()).collect();
        control
    }
}

fn open_port(spec: &PortSpec, args: &ServeArgs) -> Result<Port, Failure> {
    let access_rate = args.access_rates.iter().find(|rate| rate.number == spec.number);
    let moderation = args.moderations.iter().find(|moderation| moderation.number == spec.number);
    let settings = PortSettings {
        ring: RingSettings {
            bytes: usize::from(args.ring_mib) << 20,
            snaplen: args.snaplen.map(usize::from),
            tso: args.tso,
            // In virtual time a look at the clock takes time, and an interface none.
            stamped: !args.virtual_time,
        },
        sending: match (args.virtual_time, args.no_af_xdp) {
            (true, _) => Sending::Timed,
            (false, true) => Sending::AfPacket,
            (false, false) => Sending::AfXdp,
        },
        access: AccessSettings {
            rate_bps: access_rate.map_or(0, |rate| rate.rate_bps),
            jitter_ns: access_rate.map_or(0, |rate| rate.jitter_ns),
            seed: args.seed ^ u64::from(spec.number),
        },
        moderation: moderation.map(|moderation| ModerationSettings {
            wait: moderation.wait,
            frames: moderation.frames,
            joins: args.joined.contains(&spec.number),
        }),
    };
    let opened = Port::open(spec.number, &spec.interface, settings);
    let mut port = opened.map_err(|error| {
        let place = format!("port {}: interface {}", spec.number, spec.interface);
        match error.raw_os_error() {
            Some(libc::ENODEV) => Failure::usage(format!("{place} does not exist in this network namespace")),
            Some(libc::EPERM | libc::EACCES) => {
                Failure::usage(format!("{place}: no permission for raw packets: run as root or with CAP_NET_RAW"))
            }
            Some(libc::ENOENT) if args.virtual_time => {
                Failure::usage(format!("{place}: this kernel has no fq queueing discipline (CONFIG_NET_SCH_FQ)"))
            }
            _ => Failure::internal(format!("{place}: {error}")),
        }
    })?;
    if let Some(PortPipe { number, pipe }) = args.pipes.iter().find(|pipe| pipe.number == spec.number) {
        let opened = Recorder::open(pipe, if args.virtual_time { WhenFull::Wait } else { WhenFull::Keep });
        port.divert(opened.map_err(|error| Failure::usage(format!("--pipe {number}@{}: {error}", pipe.display())))?);
    }
    Ok(port)
}

/// What opening an interface again needs that was made again, and putting the data path before other threads.
const NEEDED: [Capability; 4] =
    [Capability::CAP_NET_RAW, Capability::CAP_NET_ADMIN, Capability::CAP_IPC_LOCK, Capability::CAP_SYS_NICE];

/// Runs the switch until SIGTERM or SIGINT.
pub fn run(args: &ServeArgs) -> Result<(), Failure> {
    check_numbers(args)?;
    if args.virtual_time {
        heap::keep_together().map_err(|error| Failure::internal(format!("memory: {error}")))?;
    }
    let ports = args.ports.iter().map(|spec| open_port(spec, args));
    let ports = ports.collect::<Result<Vec<_>, _>>()?;
    let pace = if args.virtual_time {
        Pace::VirtualTime(VirtualSettings { window_ns: u64::from(args.lookahead_us) * 1_000 })
    } else {
        Pace::RealTime(LoopSettings {
            busy_poll_ns: u64::from(args.busy_poll_us) * 1_000,
            spin_ns: u64::from(args.spin_us) * 1_000,
            real_time: args.real_time,
        })
    };
    check_reach("--grpc", &args.grpc, args.tls.is_given())?;
    let plain = Server::builder()
        .max_concurrent_streams(STREAMS_PER_CONNECTION)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW);
    let server = args.tls.secure(plain.clone())?;
    let listener = Listener::open("--grpc", &args.grpc)?;
    let for_controller = args.p4runtime.as_ref().map(|address| {
        check_reach("--p4runtime", address, false)?;
        Ok::<_, Failure>((plain, Listener::open("--p4runtime", address)?))
    });
    let for_controller = for_controller.transpose()?;
    let metrics = args.metrics.as_ref().map(|address| {
        let opened = Endpoint::open(address);
        opened.map_err(|error| Failure::usage(format!("--metrics {address}: {error}")))
    });
    let metrics = metrics.transpose()?;
    // Before the first thread is started.
    give_up(&NEEDED, listener.files()).map_err(|error| Failure::internal(error.to_string()))?;
    let (to_control, from_data_path) = args.device_ids().map(|_| control_channels()).unzip();
    let running = spawn(args.switch(), ports, pace, to_control)
        .map_err(|error| Failure::internal(format!("data-path thread: {error}")))?;
    if let Some(endpoint) = metrics {
        let served = metrics::serve(endpoint, running.handle.clone(), args.device_ids().collect());
        served.map_err(|error| Failure::internal(format!("--metrics: {error}")))?;
    }
    serve(args, (server, &listener), for_controller, running, from_data_path)
}

/// Serves gRPC until a signal stops it or the data path ends.
fn serve(
    args: &ServeArgs,
    (server, listener): (Server, &Listener),
    for_controller: Option<(Server, Listener)>,
    running: Running,
    from_data_path: Vec<FromDataPath>,
) -> Result<(), Failure> {
    let Running { handle, thread, ended } = running;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.map_err(|error| Failure::internal(format!("control thread: {error}")))?;
    let served = runtime.block_on(async {
        let signals = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()));
        let (Ok(mut terminate), Ok(mut interrupt)) = signals else {
            return Err(Failure::internal("cannot install signal handlers"));
        };
        let controls = args.device_ids().enumerate().map(|device| Arc::new(args.control(&handle, device)));
        let mut controls = controls.collect::<Vec<_>>();
        let served = controls.iter().zip(from_data_path);
        let notifiers = served.flat_map(|(control, FromDataPath { digests, packet_ins })| {
            [
                tokio::spawn(send_digests(Arc::clone(control), digests)),
                tokio::spawn(send_packet_ins(Arc::clone(control), packet_ins)),
                tokio::spawn(watch_idle(Arc::clone(control))),
            ]
        });
        let notifiers = notifiers.collect::<Vec<_>>();
        let devices = Devices::new(controls.remove(0), controls);
        let p4runtime =
            P4RuntimeServer::new(P4RuntimeService::new(devices.clone())).max_decoding_message_size(MESSAGE_LIMIT);
        let loopbacks: Arc<[u16]> = args.loopbacks().collect();
        let traffic_manager = TrafficManagerServer::new(TrafficManagerService::new(devices, loopbacks));
        let traffic_manager = traffic_manager.max_decoding_message_size(MESSAGE_LIMIT);
        let services = Services { first: p4runtime.clone(), second: traffic_manager };
        let stopped = async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        };
        // Open streams never end by themselves: the server is dropped as soon as it has to stop.
        let (stop, stopping) = tokio::sync::oneshot::channel::<()>();
        let serving = listener.serve(server, services, async {
            let _ = stopping.await;
        });
        let serving_controller = async {
            match for_controller {
                Some((server, listener)) => listener.serve(server, p4runtime, std::future::pending()).await,
                None => std::future::pending().await,
            }
        };
        announce()?;
        let result = tokio::select! {
            result = serving => result,
            result = serving_controller => result,
            () = stopped => Ok(()),
            // By a panic, which has been reported: better no switch than one that answers but does not forward.
            _ = ended => Err(Failure::internal("the data path has ended")),
        };
        drop(stop);
        notifiers.iter().for_each(tokio::task::JoinHandle::abort);
        result
    });
    handle.stop();
    runtime.shutdown_background();
    let ended = thread.join().map_err(|_| Failure::internal("the data path failed"));
    served.and(ended)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: ServeArgs,
    }

    fn arguments(words: &[&str]) -> ServeArgs {
        <Line as clap::Parser>::parse_from([&["serve"], words].concat()).args
    }

    #[test]
    fn a_card_joins_only_what_it_delivers_together() {
        let with = |words: &[&str]| {
            let common =
                ["--grpc", "unix:/x", "--port", "1@a", "--port", "2@b", "--virtual-time", "--lookahead-us", "20"];
            check_numbers(&arguments(&[&common[..], words].concat())).map_err(|failure| failure.to_string())
        };
        assert_eq!(with(&["--rx-moderation", "1@50", "--lro", "1"]), Ok(()));
        let lacking = with(&["--rx-moderation", "1@50", "--lro", "2"]).expect_err("no moderation");
        assert!(lacking.starts_with("--lro: port 2 has no --rx-moderation"), "{lacking}");
        let absent = with(&["--rx-moderation", "1@50", "--lro", "3"]).expect_err("no port");
        assert!(absent.contains("port 3"), "{absent}");
    }

    #[test]
    fn devices_share_nothing() {
        let with = |words: &[&str]| {
            let common = ["--grpc", "unix:/x", "--port", "1@a", "--port", "2@b", "--cable", "3@4"];
            check_numbers(&arguments(&[&common[..], words].concat())).map_err(|failure| failure.to_string())
        };
        assert_eq!(with(&["--device", "2@2,4,9", "--cpu-port", "9", "--cpu-port", "8", "--watch", "2@s.x"]), Ok(()));
        for (words, says) in [
            (&["--device", "1@2"][..], "--device: device 1 is given twice"),
            (&["--device", "2@1", "--device", "2@2"], "--device: device 2 is given twice"),
            (&["--device", "2@5"], "--device 2: the switch has no port 5"),
            (&["--device", "2@1", "--device", "3@1"], "--device 3: port 1 is another device's, or given twice"),
            (&["--cpu-port", "8", "--cpu-port", "9"], "--cpu-port: 9 is the second one of a device"),
            (&["--watch", "2@s.x"], "--watch: there is no device 2"),
            (&["--loopback", "4"], "port 4 is given twice"),
        ] {
            assert_eq!(with(words), Err(says.to_owned()));
        }
    }

    #[test]
    fn the_beginning_of_a_frame_is_held_where_the_rest_is_not_needed() {
        let given = |words: &[&str]| {
            let common = ["serve", "--grpc", "unix:/x", "--port", "1@a"];
            let line = <Line as clap::Parser>::try_parse_from([&common[..], words].concat());
            line.map(|line| line.args.snaplen).map_err(|error| error.to_string())
        };
        assert_eq!(given(&["--virtual-time", "--snaplen", "192"]), Ok(Some(192)));
        assert_eq!(given(&["--virtual-time"]), Ok(None));
        for (words, named) in
            [(&["--snaplen", "192"][..], "--virtual-time"), (&["--virtual-time", "--snaplen", "117"], "117")]
        {
            let refused = given(words).expect_err("must be refused");
            assert!(refused.contains(named), "{refused}");
        }
    }

    fn running() -> (Running, Vec<FromDataPath>) {
        let settings = LoopSettings { busy_poll_ns: 0, spin_ns: 0, real_time: false };
        let (to_control, received) = control_channels();
        (
            spawn(Switch::new(&[], 1), vec![], Pace::RealTime(settings), vec![to_control]).expect("threads"),
            vec![received],
        )
    }

    fn alone() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime")
    }

    #[test]
    fn ends_with_an_error_when_the_data_path_panics() {
        let path = std::env::temp_dir().join(format!("narrows-panic-{}.sock", std::process::id()));
        let address = format!("unix:{}", path.display());
        let (running, received) = running();
        let handle = running.handle.clone();
        let server = std::thread::spawn(move || {
            let args = arguments(&["--grpc", &address]);
            let listener = Listener::open("--grpc", &args.grpc)?;
            serve(&args, (Server::builder(), &listener), None, running, received)
        });
        let started = std::time::Instant::now();
        while UnixStream::connect(&path).is_err() {
            assert!(started.elapsed().as_secs() < 10, "does not listen");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(&path).expect("socket").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "others can program the switch");
        let answer = alone().block_on(handle.call(|_| -> () { panic!("a fault of the data path, for this test") }));
        assert!(answer.is_err());
        while !server.is_finished() {
            assert!(started.elapsed().as_secs() < 20, "still serves");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let failure = server.join().expect("no panic").expect_err("must fail");
        assert_eq!((failure.exit_code, failure.to_string().as_str()), (1, "the data path has ended"));
        assert!(!path.exists());
    }
}
