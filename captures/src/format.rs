// SPDX-License-Identifier: Apache-2.0
//! Recognises either format by its first bytes.

use crate::pcap::{self, PcapHeader};
use crate::pcapng::Sections;

/// A file's format, and what is known from its headers so far.
#[derive(Debug, Clone)]
pub(crate) enum Format {
    Pcap(PcapHeader),
    Pcapng(Sections),
}

impl Format {
    /// Recognises a file by its first bytes ([`pcap::FILE_HEADER_BYTES`], or all if it has fewer). Also returns how many of them
    /// come before the first record.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn of(head: &[u8]) -> Result<(Self, usize), String> {
        if Sections::starts(head) {
            return Ok((Format::Pcapng(Sections::default()), 0));
        }
        let header = PcapHeader::parse(head)?;
        Ok((Format::Pcap(header), pcap::FILE_HEADER_BYTES))
    }
}
