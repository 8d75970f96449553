//! Mutual TLS for gRPC over TCP: the server proves who it is, and so must every client.
// SPDX-License-Identifier: Apache-2.0
use std::path::PathBuf;

use clap::Args;
use narrows_switch::failure::Failure;
use tonic::transport::Server;

/// Files of the server's identity and of who may be a client, in PEM form; all or none.
#[derive(Debug, Default, Args)]
pub struct TlsArgs {
    /// Certificate of the server (PEM)
    #[arg(long, requires = "tls_key", requires = "tls_client_ca", value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// Key of the server (PEM)
    #[arg(long, requires = "tls_cert", value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// Certificate authority of the clients (PEM); a client without a certificate of it is refused
    #[arg(long, requires = "tls_cert", value_name = "FILE")]
    tls_client_ca: Option<PathBuf>,
}

impl TlsArgs {
    /// True if the server is to use TLS.
    pub fn is_given(&self) -> bool {
        self.tls_cert.is_some()
    }

    /// The server, with TLS if it is to use that. Errors: a file that cannot be read or used, a build without TLS.
    pub fn secure(&self, server: Server) -> Result<Server, Failure> {
        match (&self.tls_cert, &self.tls_key, &self.tls_client_ca) {
            (Some(cert), Some(key), Some(ca)) => with_tls(server, cert, key, ca),
            _ => Ok(server),
        }
    }
}

#[cfg(feature = "tls")]
fn with_tls(
    server: Server,
    cert: &std::path::Path,
    key: &std::path::Path,
    ca: &std::path::Path,
) -> Result<Server, Failure> {
    use tonic::transport::{Certificate, Identity, ServerTlsConfig};

    let read = |option: &str, path: &std::path::Path| {
        std::fs::read(path).map_err(|error| Failure::usage(format!("{option} {}: {error}", path.display())))
    };
    let identity = Identity::from_pem(read("--tls-cert", cert)?, read("--tls-key", key)?);
    let clients = Certificate::from_pem(read("--tls-client-ca", ca)?);
    let config = ServerTlsConfig::new().identity(identity).client_ca_root(clients);
    server.tls_config(config).map_err(|error| {
        let cause = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
        Failure::usage(format!("--tls-cert, --tls-key, --tls-client-ca: {cause}"))
    })
}

#[cfg(not(feature = "tls"))]
fn with_tls(_: Server, _: &std::path::Path, _: &std::path::Path, _: &std::path::Path) -> Result<Server, Failure> {
    Err(Failure::usage("--tls-cert: this build has no TLS: build it with `cargo build --release --features tls`"))
}
