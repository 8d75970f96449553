//! The stream of each client: arbitration and packets in, digests out.
// SPDX-License-Identifier: Apache-2.0
use std::sync::Arc;
use std::time::{Duration, Instant};

use narrows_pipeline::DigestRecord;
use narrows_proto::p4::v1::{
    stream_error::Details, stream_message_request::Update as Request, stream_message_response::Update, PacketOutError,
    StreamError, StreamMessageRequest, StreamMessageResponse, StreamOtherError,
};
use prost::Message;
use tokio::sync::mpsc::Receiver;
use tonic::{Code, Status, Streaming};

use super::arbitration::ToClient;
use super::control::Control;

/// Longest message that is repeated in an error report, in bytes: many reports may wait for a client that reads slowly.
const ECHO_LIMIT: usize = 1_024;

/// Serves one client's stream until it ends.
pub async fn serve(
    control: Arc<Control>,
    client: u64,
    mut requests: Streaming<StreamMessageRequest>,
    to_client: ToClient,
) {
    loop {
        let request = tokio::select! {
            request = requests.message() => request,
            () = to_client.closed() => break,
        };
        let Ok(Some(request)) = request else { break };
        if let Err(status) = handle(&control, client, &to_client, request).await {
            // The stream ends with this status; a client that disconnected does not see it.
            let _ = to_client.send(Err(status)).await;
            break;
        }
    }
    control.clients().disconnect(client);
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

async fn handle(
    control: &Control,
    client: u64,
    to_client: &ToClient,
    request: StreamMessageRequest,
) -> Result<(), Status> {
    let answer = match request.update {
        Some(Request::Arbitration(update)) => return control.arbitrate(client, to_client, &update).await,
        Some(Request::DigestAck(ack)) => {
            if control.clients().is_primary(client) {
                control.digests().acknowledge(ack.digest_id, ack.list_id);
                control.digests_changed.notify_one();
            }
            return Ok(());
        }
        Some(Request::Packet(packet)) => match control.packet_out(client, &packet).await {
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
    let _ = to_client.try_send(Ok(answer));
    Ok(())
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
