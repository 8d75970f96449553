//! Where gRPC is served, and to whom.
// SPDX-License-Identifier: Apache-2.0
use std::convert::Infallible;
use std::io::{self, Write};
use std::net::{TcpListener, ToSocketAddrs};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use narrows_metrics::Address;
use narrows_privileges::Below;
use narrows_switch::failure::Failure;
use tokio_stream::wrappers::{TcpListenerStream, UnixListenerStream};
use tonic::body::Body;
use tonic::codegen::http::Response;
use tonic::codegen::BoxFuture;
use tonic::transport::Server;

use crate::services::Grpc;

/// Removes the socket of a server that is gone; refuses to touch anything else.
fn remove_stale(option: &str, path: &Path) -> Result<(), Failure> {
    let Ok(metadata) = std::fs::symlink_metadata(path) else {
        return Ok(());
    };
    if !metadata.file_type().is_socket() {
        return Err(Failure::usage(format!("{option} unix:{}: exists and is not a socket", path.display())));
    }
    if UnixStream::connect(path).is_ok() {
        return Err(Failure::usage(format!("{option} unix:{}: another server is listening there", path.display())));
    }
    std::fs::remove_file(path).map_err(|error| cannot_listen(option, &path.display().to_string(), &error))
}

fn cannot_listen(option: &str, address: &str, error: &io::Error) -> Failure {
    Failure::usage(format!("{option} {address}: {error}"))
}

/// Reports that all listen that are to serve.
///
/// # Errors
/// There is no one to report it to.
pub fn announce() -> Result<(), Failure> {
    let mut stdout = io::stdout();
    let written = writeln!(stdout, "ready").and_then(|()| stdout.flush());
    written.map_err(|error| Failure::internal(format!("standard output: {error}")))
}

/// Refuses to be programmed by anyone who can reach this machine: an address that is not local needs TLS.
pub fn check_reach(option: &str, address: &Address, secured: bool) -> Result<(), Failure> {
    let Address::Tcp(host) = address else {
        return match secured {
            true => Err(Failure::usage("--tls-cert: TLS is for host:port, not for a Unix socket")),
            false => Ok(()),
        };
    };
    let mut addresses = host.to_socket_addrs().map_err(|error| cannot_listen(option, host, &error))?;
    match secured || addresses.all(|address| address.ip().is_loopback()) {
        true => Ok(()),
        false => Err(Failure::usage(format!(
            "{option} {host}: not an address of this machine only: allowed are unix:/path/to.sock, 127.0.0.1, [::1], or any \
             address with --tls-cert, --tls-key and --tls-client-ca"
        ))),
    }
}

/// Where clients connect.
pub enum Listener {
    /// A socket file, which is removed when the switch ends.
    Unix(UnixListener, PathBuf),
    /// Of host:port.
    Tcp(TcpListener),
}

impl Listener {
    /// Listens, before anything is served, where an option says.
    pub fn open(option: &str, address: &Address) -> Result<Self, Failure> {
        match address {
            Address::Unix(path) => {
                remove_stale(option, path)?;
                // SAFETY: sets the mask of this process and touches nothing else. The socket is the only file that it makes.
                unsafe { libc::umask(0o177) };
                let listener = UnixListener::bind(path).and_then(|unix| unix.set_nonblocking(true).map(|()| unix));
                let listener = listener.map_err(|error| cannot_listen(option, &path.display().to_string(), &error))?;
                Ok(Listener::Unix(listener, path.clone()))
            }
            Address::Tcp(host) => {
                let listener = TcpListener::bind(host).and_then(|tcp| tcp.set_nonblocking(true).map(|()| tcp));
                Ok(Listener::Tcp(listener.map_err(|error| cannot_listen(option, host, &error))?))
            }
        }
    }

    /// Cleans up files: removes the socket.
    pub fn files(&self) -> Below<'_> {
        match self {
            Listener::Unix(_, path) => match path.parent() {
                Some(directory) if directory != Path::new("") => Below::Remove(directory),
                _ => Below::Remove(Path::new(".")),
            },
            Listener::Tcp(_) => Below::Nothing,
        }
    }

    /// Accepts clients until `stopped`.
    pub async fn serve(
        &self,
        server: Server,
        services: impl Grpc<Future = BoxFuture<Response<Body>, Infallible>> + Clone + Send + 'static,
        stopped: impl std::future::Future<Output = ()>,
    ) -> Result<(), Failure> {
        let failed = |error: &dyn std::error::Error| Failure::internal(format!("gRPC server: {error}"));
        match self {
            Listener::Unix(listener, _) => {
                let listener = listener.try_clone().and_then(tokio::net::UnixListener::from_std);
                let incoming = UnixListenerStream::new(listener.map_err(|error| failed(&error))?);
                server.serve_with_incoming_shutdown(services, incoming, stopped).await
            }
            Listener::Tcp(listener) => {
                let listener = listener.try_clone().and_then(tokio::net::TcpListener::from_std);
                let incoming = TcpListenerStream::new(listener.map_err(|error| failed(&error))?);
                server.serve_with_incoming_shutdown(services, incoming, stopped).await
            }
        }
        .map_err(|error| failed(&error))
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Listener::Unix(_, path) = self {
            // Something else may have removed it by now.
            let _ = std::fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listens_elsewhere_with_tls_only() {
        let reach = |grpc: &str, secured| {
            check_reach("--grpc", &grpc.parse().expect("address"), secured).map_err(|failure| failure.exit_code)
        };
        for own in ["127.0.0.1:1", "[::1]:1", "localhost:1", "127.9.9.9:1"] {
            assert_eq!((reach(own, false), reach(own, true)), (Ok(()), Ok(())), "{own}");
        }
        for other in ["0.0.0.0:1", "[::]:1", "192.0.2.1:1"] {
            assert_eq!((reach(other, false), reach(other, true)), (Err(2), Ok(())), "{other}");
        }
        assert_eq!((reach("unix:/s", false), reach("unix:/s", true)), (Ok(()), Err(2)));
    }
}
