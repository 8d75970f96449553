//! The stream of each client: arbitration and packets in, digests out.
// SPDX-License-Identifier: Apache-2.0
use std::sync::Arc;
use std::time::{Duration, Instant};

use narrows_pipeline::DigestRecord;
use narrows_proto::p4::v1::{
    stream_error::Details, stream_message_request::Update as Request, stream_message_response::Update,
    MasterArbitrationUpdate, PacketOutError, StreamError, StreamMessageRequest, StreamMessageResponse,
    StreamOtherError,
};
use prost::Message;
use tokio::sync::mpsc::Receiver;
use tonic::{Code, Status, Streaming};

use super::arbitration::ToClient;
use super::control::Control;
use super::devices::Devices;

/// Longest message that is repeated in an error report, in bytes: many reports may wait for a client that reads slowly.
const ECHO_LIMIT: usize = 1_024;

/// A client's stream, of the device that its client has named; of the first one until then.
pub struct ClientStream {
    control: Arc<Control>,
    client: u64,
    to_client: ToClient,
}

impl ClientStream {
    /// A stream to a client, which has not said yet what it is about. Errors: RESOURCE_EXHAUSTED.
    pub fn open(devices: &Devices, to_client: ToClient) -> Result<Self, Status> {
        let control = Arc::clone(devices.first());
        let client = control.clients().connect()?;
        Ok(ClientStream { control, client, to_client })
    }

    /// Serves the stream until it ends.
    pub async fn serve(mut self, devices: Devices, mut requests: Streaming<StreamMessageRequest>) {
        loop {
            let request = tokio::select! {
                request = requests.message() => request,
                () = self.to_client.closed() => break,
            };
            let Ok(Some(request)) = request else { break };
            if let Err(status) = self.handle(&devices, request).await {
                // The stream ends with this status; a client that disconnected does not see it.
                let _ = self.to_client.send(Err(status)).await;
                break;
            }
        }
        self.control.clients().disconnect(self.client);
    }

    async fn arbitrate(&mut self, devices: &Devices, update: &MasterArbitrationUpdate) -> Result<(), Status> {
        let named = self.control.clients().knows(self.client);
        if !named && update.device_id != self.control.device_id {
            let control = Arc::clone(devices.find(update.device_id)?);
            let client = control.clients().connect()?;
            self.control.clients().disconnect(self.client);
            (self.control, self.client) = (control, client);
        }
        self.control.arbitrate(self.client, &self.to_client, update).await
    }

    async fn handle(&mut self, devices: &Devices, request: StreamMessageRequest) -> Result<(), Status> {
        let control = &self.control;
        let answer = match request.update {
            Some(Request::Arbitration(update)) => return self.arbitrate(devices, &update).await,
            Some(Request::DigestAck(ack)) => {
                if control.clients().is_primary(self.client) {
                    control.digests().acknowledge(ack.digest_id, ack.list_id);
                    control.digests_changed.notify_one();
                }
                return Ok(());
            }
            Some(Request::Packet(packet)) => match control.packet_out(self.client, &packet).await {
                Ok(()) => return Ok(()),
                Err(error) => {
                    let details = Details::PacketOut(PacketOutError { packet_out: echo(packet) });
                    refusal(error.code, &error.message, details)
                }
            },
            Some(Request::Other(other)) => {
                let details = Details::Other(StreamOtherError { other: echo(other) });
                refusal(Code::Unimplemented, "unknown stream message", details)
            }
            None => return Err(Status::invalid_argument("an empty stream message")),
        };
        // An error report to a client that does not read its stream is lost.
        let _ = self.to_client.try_send(Ok(answer));
        Ok(())
    }
}

/// A message that was refused, if it is short enough to be repeated.
fn echo<M: Message>(refused: M) -> Option<M> {
    (refused.encoded_len() <= ECHO_LIMIT).then_some(refused)
}

fn refusal(code: Code, message: &str, details: Details) -> StreamMessageResponse {
    let error = StreamError {
        canonical_code: code as i32,
        message: message.into(),
        space: "narrows-softswitch".into(),
        details: Some(details),
        ..Default::default()
    };
    StreamMessageResponse { update: Some(Update::Error(error)) }
}

/// Sends the program's digests to the primaries until the data path ends.
pub async fn send_digests(control: Arc<Control>, mut records: Receiver<DigestRecord>) {
    const LONGEST: Duration = Duration::from_secs(3_600);
    loop {
        let wait = control.digests().wait(Instant::now()).unwrap_or(LONGEST);
        tokio::select! {
            record = records.recv() => match record {
                Some(record) => {
                    let now = Instant::now();
                    let mut digests = control.digests();
                    digests.add(record, now);
                    while let Ok(record) = records.try_recv() {
                        digests.add(record, now);
                    }
                }
                None => return,
            },
            () = tokio::time::sleep(wait) => {}
            () = control.digests_changed.notified() => {}
        }
        let lists = control.digests().due(Instant::now());
        for list in lists {
            let (reached, missed) = control.clients().to_primaries(&list);
            if reached == 0 || missed > 0 {
                control.digests().undelivered(&list, reached == 0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_proto::p4::v1::PacketOut;

    #[test]
    fn a_long_message_is_not_repeated() {
        let packet = |length| PacketOut { payload: vec![7; length], metadata: vec![] };
        assert_eq!(echo(packet(ECHO_LIMIT - 9)), Some(packet(ECHO_LIMIT - 9)));
        assert_eq!(echo(packet(ECHO_LIMIT)), None);
    }
}
