//! The stream of each client: arbitration in, digests out.
// SPDX-License-Identifier: Apache-2.0
use std::sync::Arc;
use std::time::{Duration, Instant};

use narrows_pipeline::DigestRecord;
use tokio::sync::mpsc::Receiver;
use tonic::{Code, Status, Streaming};

use super::arbitration::ToClient;
use super::control::Control;
use crate::proto::p4::v1::{
    stream_error::Details, stream_message_request::Update as Request, stream_message_response::Update, PacketOutError,
    StreamError, StreamMessageRequest, StreamMessageResponse, StreamOtherError,
};

/// Serves one client's stream until it ends.
pub async fn serve(control: Arc<Control>, mut requests: Streaming<StreamMessageRequest>, to_client: ToClient) {
    let client = control.clients().connect();
    loop {
        let request = tokio::select! {
            request = requests.message() => request,
            () = to_client.closed() => break,
        };
        let Ok(Some(request)) = request else { break };
        if let Err(status) = handle(&control, client, &to_client, request) {
            // The stream ends with this status; a client that went away does not see it.
            let _ = to_client.send(Err(status)).await;
            break;
        }
    }
    control.clients().disconnect(client);
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

fn handle(control: &Control, client: u64, to_client: &ToClient, request: StreamMessageRequest) -> Result<(), Status> {
    let answer = match request.update {
        Some(Request::Arbitration(update)) => return control.clients().arbitrate(client, to_client, &update),
        Some(Request::DigestAck(ack)) => {
            if control.clients().is_primary(client) {
                control.digests().acknowledge(ack.digest_id, ack.list_id);
                control.digests_changed.notify_one();
            }
            return Ok(());
        }
        Some(Request::Packet(packet)) => {
            let details = Details::PacketOut(PacketOutError { packet_out: Some(packet) });
            refusal(Code::Unimplemented, "packet-out: the pipeline has no controller header", details)
        }
        Some(Request::Other(other)) => {
            let details = Details::Other(StreamOtherError { other: Some(other) });
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
            control.clients().to_primaries(&list);
        }
    }
}
