//! Packets between a program and its controller, and the header in front of them that carries their metadata: `packet_in` and
//! `packet_out` of P4Info.
// SPDX-License-Identifier: Apache-2.0
use std::sync::Arc;

use narrows_proto::p4::config::v1::{controller_packet_metadata, ControllerPacketMetadata, P4Info};
use narrows_proto::p4::v1::{
    stream_message_response::Update, PacketIn, PacketMetadata, PacketOut, StreamMessageResponse,
};
use narrows_switch::io::{self, MAX_FRAME};
use tokio::sync::mpsc::Receiver;
use tonic::Code;

use super::control::Control;
use super::error::UpdateError;
use super::value::{decode, encode};

/// Bits of the widest field.
const MAX_WIDTH: i32 = 128;
/// What P4Info says of a field that only fills up bytes.
const PADDING: &str = "@padding";

#[derive(Debug, Clone)]
struct Field {
    id: u32,
    name: String,
    width: u32,
    /// A controller need not give it.
    is_padding: bool,
}

/// The header of one direction.
#[derive(Debug, Clone)]
pub struct ControllerHeader {
    name: &'static str,
    /// In the order in which they are in the header.
    fields: Vec<Field>,
}

/// The headers of a program.
#[derive(Debug, Clone, Default)]
pub struct ControllerHeaders {
    /// In front of packets to the controller.
    pub packet_in: Option<ControllerHeader>,
    /// In front of packets from the controller.
    pub packet_out: Option<ControllerHeader>,
}

impl ControllerHeaders {
    /// Those that P4Info has. Errors: INVALID_ARGUMENT for others than these two, and for one that cannot be.
    pub fn new(info: &P4Info) -> Result<Self, UpdateError> {
        let mut headers = ControllerHeaders::default();
        for message in &info.controller_packet_metadata {
            let name = message.preamble.as_ref().map_or("", |preamble| preamble.name.as_str());
            let (place, name) = match name {
                "packet_in" => (&mut headers.packet_in, "packet_in"),
                "packet_out" => (&mut headers.packet_out, "packet_out"),
                _ => {
                    let message = format!("controller header '{name}': allowed are packet_in and packet_out");
                    return Err(UpdateError::invalid(message));
                }
            };
            *place = Some(ControllerHeader::new(name, message)?);
        }
        Ok(headers)
    }
}

impl ControllerHeader {
    fn new(name: &'static str, header: &ControllerPacketMetadata) -> Result<Self, UpdateError> {
        let field = |metadata: &controller_packet_metadata::Metadata| {
            let (bits, of) = (metadata.bitwidth, &metadata.name);
            if !(1..=MAX_WIDTH).contains(&bits) {
                let message = format!("{name}: {of} has {bits} bits: allowed are 1 to {MAX_WIDTH}");
                return Err(UpdateError::invalid(message));
            }
            let is_padding = metadata.annotations.iter().any(|annotation| annotation.starts_with(PADDING));
            Ok(Field { id: metadata.id, name: metadata.name.clone(), width: bits as u32, is_padding })
        };
        let fields = header.metadata.iter().map(field).collect::<Result<Vec<_>, _>>()?;
        let header = ControllerHeader { name, fields };
        match header.bits() % 8 {
            0 => Ok(header),
            _ => Err(UpdateError::invalid(format!("{name}: its {} bits are not whole bytes", header.bits()))),
        }
    }

    fn bits(&self) -> usize {
        self.fields.iter().map(|field| field.width as usize).sum()
    }

    /// Length of the header.
    fn bytes(&self) -> usize {
        self.bits() / 8
    }

    /// The packet and its metadata; `None` if the frame ends within the header.
    fn split(&self, frame: &[u8]) -> Option<PacketIn> {
        let (header, payload) = frame.split_at_checked(self.bytes())?;
        let mut at = 0;
        let metadata = self.fields.iter().map(|field| {
            let bits = (at..at + field.width as usize).map(|bit| header[bit / 8] >> (7 - bit % 8) & 1);
            at += field.width as usize;
            let value = bits.fold(0u128, |value, bit| value << 1 | u128::from(bit));
            PacketMetadata { metadata_id: field.id, value: encode(value) }
        });
        Some(PacketIn { metadata: metadata.collect(), payload: payload.to_vec() })
    }

    /// The frame: the header with its metadata, and the packet. Errors: names the field that is absent, unknown, given twice or
    /// does not fit.
    fn join(&self, packet: &PacketOut) -> Result<Vec<u8>, UpdateError> {
        let known = |id: u32| self.fields.iter().any(|field| field.id == id);
        if let Some(strange) = packet.metadata.iter().find(|given| !known(given.metadata_id)) {
            return Err(UpdateError::invalid(format!("{}: it has no metadata {}", self.name, strange.metadata_id)));
        }
        let mut frame = vec![0; self.bytes()];
        let mut at = 0;
        for field in &self.fields {
            let what = || format!("{}: metadata {} ({})", self.name, field.id, field.name);
            let mut given = packet.metadata.iter().filter(|given| given.metadata_id == field.id);
            let value = match given.next() {
                Some(given) => decode(&given.value, field.width, &what())?,
                None if field.is_padding => 0,
                None => return Err(UpdateError::invalid(format!("{} is missing", what()))),
            };
            if given.next().is_some() {
                return Err(UpdateError::invalid(format!("{} is given twice", what())));
            }
            for bit in (0..field.width).rev() {
                frame[at / 8] |= ((value >> bit & 1) as u8) << (7 - at % 8);
                at += 1;
            }
        }
        frame.extend_from_slice(&packet.payload);
        Ok(frame)
    }
}

impl Control {
    /// Sends a controller's packet into the program. Errors: the client is not a primary; there is no CPU port, no program or no
    /// header for it; the packet does not fit.
    pub async fn packet_out(&self, client: u64, packet: &PacketOut) -> Result<(), UpdateError> {
        // No other program comes in while this is held.
        let pipelines = self.pipelines.lock().await;
        if !self.clients().is_primary(client) {
            return Err(UpdateError::new(Code::PermissionDenied, "packet-out: only a primary client may send packets"));
        }
        let active = pipelines.active.as_ref();
        let precondition = |message| UpdateError::new(Code::FailedPrecondition, message);
        let active = active.ok_or_else(|| precondition("packet-out: no forwarding pipeline config was set"))?;
        let header = active.schema.controller_headers.packet_out.as_ref().ok_or_else(|| {
            UpdateError::unimplemented("packet-out: the P4Info of the program has no controller header packet_out")
        })?;
        let port = self.cpu_port.ok_or_else(|| precondition("packet-out: the switch has no CPU port (--cpu-port)"))?;
        let (frame, preceding) = (header.join(packet)?, header.bytes());
        if frame.is_empty() || frame.len() > MAX_FRAME {
            let length = frame.len();
            let message = format!("packet-out: {length} bytes with its header: allowed are 1 to {MAX_FRAME}");
            return Err(UpdateError::invalid(message));
        }
        let send = move |data_path: &mut io::DataPath| data_path.packet_out(port, &frame, preceding);
        // A wait for each would take most of the time. Another program comes in behind it.
        let sent = self.handle.send(send).await;
        sent.map_err(|gone| UpdateError::new(Code::Unavailable, gone.to_string()))
    }

    /// The packet-in that a frame of the program is; `None` if that program is no longer there, or says of no header.
    async fn packet_in(&self, packet: &io::PacketIn) -> Option<PacketIn> {
        let pipelines = self.pipelines.lock().await;
        let active = pipelines.active.as_ref().filter(|active| active.program_id() == packet.program)?;
        active.schema.controller_headers.packet_in.as_ref()?.split(&packet.frame)
    }
}

/// Sends what the program sends to the CPU port to the primaries until the data path ends.
pub async fn send_packet_ins(control: Arc<Control>, mut packets: Receiver<io::PacketIn>) {
    while let Some(packet) = packets.recv().await {
        let received = match control.packet_in(&packet).await {
            Some(packet) => {
                let message = StreamMessageResponse { update: Some(Update::Packet(packet)) };
                control.clients().to_primaries(&message)
            }
            None => (0, 0),
        };
        if !matches!(received, (1.., 0)) {
            control.lose_packet_in();
        }
    }
}

#[cfg(test)]
mod tests {
    use narrows_proto::p4::config::v1::Preamble;

    use super::*;

    fn header(name: &str, fields: &[(u32, i32, &str)]) -> Result<ControllerHeaders, UpdateError> {
        let metadata = fields.iter().map(|(id, bitwidth, annotation)| controller_packet_metadata::Metadata {
            id: *id,
            name: format!("f{id}"),
            annotations: vec![(*annotation).into()],
            bitwidth: *bitwidth,
            ..Default::default()
        });
        let preamble = Some(Preamble { name: name.into(), ..Preamble::default() });
        let message = ControllerPacketMetadata { preamble, metadata: metadata.collect() };
        ControllerHeaders::new(&P4Info { controller_packet_metadata: vec![message], ..P4Info::default() })
    }

    fn out(metadata: &[(u32, &[u8])]) -> PacketOut {
        let metadata = metadata.iter().map(|(id, value)| PacketMetadata { metadata_id: *id, value: value.to_vec() });
        PacketOut { payload: vec![0xaa, 0xbb], metadata: metadata.collect() }
    }

    /// 9 bits of 0x155, 7 of padding, 16 of 0x0203: 1010 1010 1000 0000 0000 0010 0000 0011.
    const FIELDS: [(u32, i32, &str); 3] = [(1, 9, ""), (2, 7, "@padding"), (3, 16, "")];
    const FRAME: [u8; 6] = [0xaa, 0x80, 0x02, 0x03, 0xaa, 0xbb];

    #[test]
    fn fields_are_packed_from_the_highest_bit() {
        let packet_out = header("packet_out", &FIELDS).expect("fits").packet_out.expect("is there");
        let given = out(&[(3, &[2, 3]), (1, &[1, 0x55])]);
        assert_eq!(packet_out.join(&given), Ok(FRAME.to_vec()));
        assert_eq!(packet_out.bytes(), 4);
    }

    #[test]
    fn packet_ins_have_all_fields() {
        let packet_in = header("packet_in", &FIELDS).expect("fits").packet_in.expect("is there");
        let found = packet_in.split(&FRAME).expect("whole");
        let values: Vec<_> = found.metadata.iter().map(|field| (field.metadata_id, field.value.clone())).collect();
        assert_eq!(values, [(1, vec![1, 0x55]), (2, vec![0]), (3, vec![2, 3])]);
        assert_eq!(found.payload, [0xaa, 0xbb]);
        assert_eq!(packet_in.split(&FRAME[..3]), None);
    }

    #[test]
    fn what_does_not_belong_is_named() {
        let packet_out = header("packet_out", &FIELDS).expect("fits").packet_out.expect("is there");
        let refusal = |given: &[(u32, &[u8])]| packet_out.join(&out(given)).expect_err("refused").message;
        assert_eq!(refusal(&[(1, &[1])]), "packet_out: metadata 3 (f3) is missing");
        assert_eq!(refusal(&[(1, &[1]), (3, &[1]), (3, &[1])]), "packet_out: metadata 3 (f3) is given twice");
        assert_eq!(refusal(&[(1, &[1]), (3, &[1]), (9, &[1])]), "packet_out: it has no metadata 9");
        let wide = refusal(&[(1, &[2, 0]), (3, &[1])]);
        assert_eq!(wide, "packet_out: metadata 1 (f1): the value does not fit in 9 bits");
    }

    #[test]
    fn headers_that_cannot_be_are_refused() {
        let refusal = |name, fields| header(name, fields).expect_err("refused").message;
        assert_eq!(
            refusal("packet_on", &FIELDS),
            "controller header 'packet_on': allowed are packet_in and packet_out"
        );
        assert_eq!(refusal("packet_in", &[(1, 9, "")]), "packet_in: its 9 bits are not whole bytes");
        assert_eq!(refusal("packet_in", &[(1, 136, "")]), "packet_in: f1 has 136 bits: allowed are 1 to 128");
    }
}
