//! Capture files in, pcap and pcapng, frame by frame.
// SPDX-License-Identifier: Apache-2.0
use std::fmt;
use std::io::{self, Read};

/// The link type.
pub(super) const ETHERNET: u32 = 1;
/// No record of a capture is longer than this; a larger length means that the file is broken.
pub(super) const MAX_RECORD: usize = 1 << 24;

/// Why a capture cannot be read.
#[derive(Debug)]
pub enum PcapError {
    /// Reading failed.
    Io(io::Error),
    /// It is not a capture, is broken, or holds what is not supported: which.
    Format(String),
}

impl fmt::Display for PcapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PcapError::Io(error) => error.fmt(f),
            PcapError::Format(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for PcapError {}

impl From<io::Error> for PcapError {
    fn from(error: io::Error) -> Self {
        PcapError::Io(error)
    }
}

pub(super) fn format_error<T>(what: impl Into<String>) -> Result<T, PcapError> {
    Err(PcapError::Format(what.into()))
}

pub(super) fn check_link(link: u32) -> Result<(), PcapError> {
    if link == ETHERNET {
        return Ok(());
    }
    format_error(format!("link type {link}: only Ethernet ({ETHERNET}) is supported"))
}

/// One captured frame.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    /// Capture time in nanoseconds since the epoch.
    pub time_ns: u64,
    /// Length on the wire; the bytes may be fewer.
    pub wire_length: usize,
    /// The captured bytes.
    pub bytes: Vec<u8>,
}

/// Seconds in a unit of an interface's timestamps, as numerator and denominator over nanoseconds.
#[derive(Debug, Clone, Copy)]
struct Resolution {
    ns_numerator: u128,
    denominator: u128,
}

impl Resolution {
    const MICROSECONDS: Resolution = Resolution { ns_numerator: 1_000, denominator: 1 };

    /// From the option if_tsresol.
    fn from_option(value: u8) -> Result<Self, PcapError> {
        let exponent = u32::from(value & 0x7f);
        let base: u128 = if value & 0x80 == 0 { 10 } else { 2 };
        match base.checked_pow(exponent).filter(|_| exponent <= 64) {
            Some(units) => Ok(Resolution { ns_numerator: 1_000_000_000, denominator: units }),
            None => format_error(format!("pcapng: timestamp resolution {value}")),
        }
    }

    fn to_ns(self, units: u64) -> u64 {
        u64::try_from(u128::from(units) * self.ns_numerator / self.denominator).unwrap_or(u64::MAX)
    }
}

enum Format {
    /// Nanoseconds in a unit of the fraction field.
    Pcap { fraction_ns: u64 },
    /// Timestamp resolution of each interface of the section.
    Pcapng { interfaces: Vec<Resolution> },
}

/// Reads frames one by one.
pub struct Reader<R> {
    input: R,
    big_endian: bool,
    format: Format,
    block: Vec<u8>,
}

/// Fills the buffer; false at the end of the input.
fn fill(input: &mut impl Read, buffer: &mut [u8]) -> Result<bool, PcapError> {
    let mut filled = 0;
    while filled < buffer.len() {
        match input.read(&mut buffer[filled..])? {
            0 if filled == 0 => return Ok(false),
            0 => return format_error("the capture ends in the middle of a record"),
            count => filled += count,
        }
    }
    Ok(true)
}

impl<R: Read> Reader<R> {
    /// Reads the file header; recognises the format by it.
    pub fn new(mut input: R) -> Result<Self, PcapError> {
        let mut magic = [0; 4];
        if !fill(&mut input, &mut magic)? {
            return format_error("the capture is empty");
        }
        let (big_endian, fraction_ns) = match magic {
            [0xd4, 0xc3, 0xb2, 0xa1] => (false, 1_000),
            [0xa1, 0xb2, 0xc3, 0xd4] => (true, 1_000),
            [0x4d, 0x3c, 0xb2, 0xa1] => (false, 1),
            [0xa1, 0xb2, 0x3c, 0x4d] => (true, 1),
            [0x0a, 0x0d, 0x0d, 0x0a] => {
                let format = Format::Pcapng { interfaces: vec![] };
                let mut reader = Reader { input, big_endian: false, format, block: vec![] };
                reader.section_header()?;
                return Ok(reader);
            }
            _ => return format_error("neither pcap nor pcapng"),
        };
        let mut reader = Reader { input, big_endian, format: Format::Pcap { fraction_ns }, block: vec![] };
        let mut header = [0; 20];
        if !fill(&mut reader.input, &mut header)? {
            return format_error("the capture ends in its header");
        }
        let link = reader.u32(&header, 16) & 0x0fff_ffff;
        check_link(link)?;
        Ok(reader)
    }

    fn u32(&self, bytes: &[u8], at: usize) -> u32 {
        let word = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        if self.big_endian {
            u32::from_be_bytes(word)
        } else {
            u32::from_le_bytes(word)
        }
    }

    fn u16(&self, bytes: &[u8], at: usize) -> u16 {
        let word = [bytes[at], bytes[at + 1]];
        if self.big_endian {
            u16::from_be_bytes(word)
        } else {
            u16::from_le_bytes(word)
        }
    }

    /// Reads the next frame into `record`; false at the end.
    pub fn next(&mut self, record: &mut Record) -> Result<bool, PcapError> {
        match self.format {
            Format::Pcap { fraction_ns } => self.next_pcap(record, fraction_ns),
            Format::Pcapng { .. } => self.next_pcapng(record),
        }
    }

    fn next_pcap(&mut self, record: &mut Record, fraction_ns: u64) -> Result<bool, PcapError> {
        let mut header = [0; 16];
        if !fill(&mut self.input, &mut header)? {
            return Ok(false);
        }
        let captured = self.u32(&header, 8) as usize;
        record.wire_length = self.u32(&header, 12) as usize;
        if captured > MAX_RECORD || captured > record.wire_length {
            return format_error(format!("a record of {captured} captured of {} bytes", record.wire_length));
        }
        record.time_ns =
            u64::from(self.u32(&header, 0)) * 1_000_000_000 + u64::from(self.u32(&header, 4)) * fraction_ns;
        record.bytes.resize(captured, 0);
        if captured > 0 && !fill(&mut self.input, &mut record.bytes)? {
            return format_error("the capture ends in the middle of a record");
        }
        Ok(true)
    }

    /// The rest of a section header block, after its type.
    fn section_header(&mut self) -> Result<(), PcapError> {
        let mut start = [0; 8];
        if !fill(&mut self.input, &mut start)? {
            return format_error("the capture ends in its header");
        }
        self.big_endian = match start[4..] {
            [0x4d, 0x3c, 0x2b, 0x1a] => false,
            [0x1a, 0x2b, 0x3c, 0x4d] => true,
            _ => return format_error("pcapng: a section has no byte-order magic"),
        };
        let length = self.u32(&start, 0) as usize;
        self.read_body(length, 12)?;
        self.format = Format::Pcapng { interfaces: vec![] };
        Ok(())
    }

    /// Reads what is left of a block of `length` bytes of which `seen` were read, into `block`, its trailer cut off.
    fn read_body(&mut self, length: usize, seen: usize) -> Result<(), PcapError> {
        if length % 4 != 0 || length < seen + 4 || length > MAX_RECORD {
            return format_error(format!("pcapng: a block of {length} bytes"));
        }
        self.block.resize(length - seen, 0);
        if !fill(&mut self.input, &mut self.block)? {
            return format_error("the capture ends in the middle of a block");
        }
        self.block.truncate(length - seen - 4);
        Ok(())
    }

    fn next_pcapng(&mut self, record: &mut Record) -> Result<bool, PcapError> {
        loop {
            let mut kind = [0; 4];
            if !fill(&mut self.input, &mut kind)? {
                return Ok(false);
            }
            if kind == [0x0a, 0x0d, 0x0d, 0x0a] {
                self.section_header()?;
                continue;
            }
            let kind = self.u32(&kind, 0);
            let mut length = [0; 4];
            if !fill(&mut self.input, &mut length)? {
                return format_error("the capture ends in the middle of a block");
            }
            let length = self.u32(&length, 0) as usize;
            self.read_body(length, 8)?;
            match kind {
                1 => self.interface()?,
                6 => return self.enhanced(record),
                2 | 3 => return format_error("pcapng: packets without a timestamp (simple or obsolete packet blocks)"),
                _ => {}
            }
        }
    }

    fn interface(&mut self) -> Result<(), PcapError> {
        let block = std::mem::take(&mut self.block);
        if block.len() < 8 {
            return format_error("pcapng: a short interface block");
        }
        check_link(u32::from(self.u16(&block, 0)))?;
        let mut resolution = Resolution::MICROSECONDS;
        let mut at = 8;
        while at + 4 <= block.len() {
            let (code, length) = (self.u16(&block, at), usize::from(self.u16(&block, at + 2)));
            let value = block.get(at + 4..at + 4 + length);
            match (code, value) {
                (0, _) => break,
                (9, Some([value])) => resolution = Resolution::from_option(*value)?,
                (_, None) => return format_error("pcapng: an option runs beyond its block"),
                _ => {}
            }
            at += 4 + length.div_ceil(4) * 4;
        }
        if let Format::Pcapng { interfaces } = &mut self.format {
            interfaces.push(resolution);
        }
        self.block = block;
        Ok(())
    }

    fn enhanced(&mut self, record: &mut Record) -> Result<bool, PcapError> {
        if self.block.len() < 20 {
            return format_error("pcapng: a short packet block");
        }
        let interface = self.u32(&self.block, 0) as usize;
        let Format::Pcapng { interfaces } = &self.format else {
            return format_error("pcapng: a packet before its section");
        };
        let Some(&resolution) = interfaces.get(interface) else {
            return format_error(format!("pcapng: a packet of interface {interface}, which is not described"));
        };
        let units = u64::from(self.u32(&self.block, 4)) << 32 | u64::from(self.u32(&self.block, 8));
        let captured = self.u32(&self.block, 12) as usize;
        record.time_ns = resolution.to_ns(units);
        record.wire_length = self.u32(&self.block, 16) as usize;
        let bytes = self.block.get(20..20 + captured).filter(|_| captured <= record.wire_length);
        let Some(bytes) = bytes else {
            return format_error(format!("pcapng: a packet of {captured} captured of {} bytes", record.wire_length));
        };
        record.bytes.clear();
        record.bytes.extend_from_slice(bytes);
        Ok(true)
    }
}

/// All frames of a capture.
#[cfg(test)]
pub(super) fn read_all(file: &[u8]) -> Result<Vec<Record>, PcapError> {
    let mut reader = Reader::new(file)?;
    let (mut records, mut record) = (vec![], Record::default());
    while reader.next(&mut record)? {
        records.push(record.clone());
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn garbage_is_refused_without_panic(start in 0usize..6, bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let magics: [&[u8]; 6] = [&[], &[0xd4, 0xc3, 0xb2, 0xa1], &[0xa1, 0xb2, 0x3c, 0x4d],
                &[10, 13, 13, 10], &[10, 13, 13, 10, 28, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a],
                &[10, 13, 13, 10, 16, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a, 16, 0, 0, 0, 1, 0, 0, 0, 20, 0, 0, 0]];
            let file = [magics[start], &bytes].concat();
            let _ = read_all(&file);
        }
    }

    fn block(kind: u32, body: &[u8]) -> Vec<u8> {
        let length = (body.len() as u32 + 12).to_be_bytes();
        [&kind.to_be_bytes(), &length[..], body, &length[..]].concat()
    }

    #[test]
    fn pcapng_with_nanoseconds_in_big_endian() {
        let mut file =
            block(0x0a0d_0d0a, &[0x1a, 0x2b, 0x3c, 0x4d, 0, 1, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255]);
        // Interface: Ethernet, snap length 0, if_tsresol 9.
        file.extend(block(1, &[0, 1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 1, 9, 0, 0, 0, 0, 0, 0, 0]));
        file.extend(block(0xbad, &[1, 2, 3, 4]));
        file.extend(block(6, &[0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0, 2, 0, 0, 0, 9, 0xaa, 0xbb, 0, 0]));
        let records = read_all(&file).expect("valid");
        assert_eq!(records, vec![Record { time_ns: (1 << 32) + 5, wire_length: 9, bytes: vec![0xaa, 0xbb] }]);
    }

    #[test]
    fn microsecond_pcap() {
        let mut file = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0];
        file.extend([2, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 60, 0, 0, 0, 0x55]);
        let expected = Record { time_ns: 2_000_003_000, wire_length: 60, bytes: vec![0x55] };
        assert_eq!(read_all(&file).expect("valid"), vec![expected]);
        let cut = read_all(&file[..file.len() - 1]).expect_err("cut");
        assert!(cut.to_string().contains("middle of a record"));
    }

    #[test]
    fn other_link_types_are_refused_by_number() {
        let file = [0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 113, 0, 0, 0];
        assert!(read_all(&file).expect_err("cooked").to_string().contains("113"));
    }
}
