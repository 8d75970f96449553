// SPDX-License-Identifier: Apache-2.0
//! Where a program of ours serves.

use std::path::PathBuf;
use std::str::FromStr;

/// The default address: this machine only.
pub const DEFAULT_ADDRESS: &str = "127.0.0.1:9464";

/// Where a program of ours serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A Unix socket, for its owner only.
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

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
            Address::Tcp(address) => f.write_str(address),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_syntax() {
        assert_eq!("unix:/run/a.sock".parse(), Ok(Address::Unix("/run/a.sock".into())));
        assert_eq!("unix:///run/a.sock".parse(), Ok(Address::Unix("/run/a.sock".into())));
        assert_eq!(DEFAULT_ADDRESS.parse(), Ok(Address::Tcp(DEFAULT_ADDRESS.into())));
        assert_eq!("[::1]:9464".parse(), Ok(Address::Tcp("[::1]:9464".into())));
        for wrong in ["", "unix:", "9464", ":9464", "host:", "host:65536"] {
            assert!(wrong.parse::<Address>().is_err(), "{wrong}");
        }
    }
}
