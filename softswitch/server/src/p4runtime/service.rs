//! The RPCs of p4.v1.P4Runtime.
// SPDX-License-Identifier: Apache-2.0
use std::sync::Arc;

use narrows_proto::p4::v1::{
    self as p4, entity::Entity, get_forwarding_pipeline_config_request::ResponseType, p4_runtime_server::P4Runtime,
    set_forwarding_pipeline_config_request::Action, write_request::Atomicity,
};
use tokio::sync::mpsc::{error::SendError, Sender};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::apply::Updates;
use super::control::{to_its_end, Control};
use super::devices::Devices;
use super::error::batch_status;
use super::query::Query;
use super::read::{queries, Replies};
use super::stream::ClientStream;

/// Version of the P4Runtime specification that the server follows.
const API_VERSION: &str = "1.5.0";
/// Messages that wait for a client that reads its stream slowly.
const STREAM_BACKLOG: usize = 1_024;
/// Serves p4.v1.P4Runtime.
#[derive(Clone)]
pub struct P4RuntimeService {
    devices: Devices,
}

impl P4RuntimeService {
    /// A server for these devices.
    pub fn new(devices: Devices) -> Self {
        P4RuntimeService { devices }
    }
}

/// Answers a request a query at a time.
async fn answer(
    control: &Control,
    digests: Vec<p4::Entity>,
    all: Vec<Query>,
    to_client: &Sender<Result<p4::ReadResponse, Status>>,
) -> Result<(), SendError<Result<p4::ReadResponse, Status>>> {
    let mut replies = Replies::default();
    let mut found = digests;
    for query in all {
        for reply in found.into_iter().filter_map(|entity| replies.add(entity)) {
            to_client.send(Ok(reply)).await?;
        }
        // The lock is not held while waiting for the client, which may be slow.
        found = match control.query(query).await {
            Ok(entities) => entities,
            Err(status) => return to_client.send(Err(status)).await,
        };
    }
    for reply in found.into_iter().filter_map(|entity| replies.add(entity)) {
        to_client.send(Ok(reply)).await?;
    }
    match replies.last() {
        Some(reply) => to_client.send(Ok(reply)).await,
        None => Ok(()),
    }
}

type Stream<T> = ReceiverStream<Result<T, Status>>;

#[tonic::async_trait]
impl P4Runtime for P4RuntimeService {
    type ReadStream = Stream<p4::ReadResponse>;
    type StreamChannelStream = Stream<p4::StreamMessageResponse>;

    async fn write(&self, request: Request<p4::WriteRequest>) -> Result<Response<p4::WriteResponse>, Status> {
        let request = request.into_inner();
        let control = Arc::clone(self.devices.find(request.device_id)?);
        let atomicity = Atomicity::try_from(request.atomicity);
        let atomicity = atomicity.map_err(|_| Status::invalid_argument("atomicity: unknown"))?;
        let write = async move { Updates { control }.write(&request, atomicity).await };
        batch_status(&to_its_end(write).await?)?;
        Ok(Response::new(p4::WriteResponse {}))
    }

    async fn read(&self, request: Request<p4::ReadRequest>) -> Result<Response<Self::ReadStream>, Status> {
        let request = request.into_inner();
        let updates = Updates { control: Arc::clone(self.devices.find(request.device_id)?) };
        let (sender, receiver) = tokio::sync::mpsc::channel(4);
        // Everything is decoded before the first answer, so that a bad request has none.
        let (mut answers, mut all) = (vec![], vec![]);
        {
            let mut pipelines = updates.control.pipelines.lock().await;
            let current = pipelines.current()?;
            let (schema, cookies) = (Arc::clone(&current.schema), Arc::clone(&current.cookies));
            for entity in &request.entities {
                match &entity.entity {
                    Some(Entity::DigestEntry(wanted)) => {
                        answers.extend(updates.read_digests(&mut pipelines, wanted.digest_id)?);
                    }
                    _ => all.extend(queries(&schema, &cookies, entity)?),
                }
            }
        }
        tokio::spawn(async move {
            // An error means that the client disconnected.
            let _ = answer(&updates.control, answers, all, &sender).await;
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn set_forwarding_pipeline_config(
        &self,
        request: Request<p4::SetForwardingPipelineConfigRequest>,
    ) -> Result<Response<p4::SetForwardingPipelineConfigResponse>, Status> {
        let request = request.into_inner();
        let election_id = request.election_id;
        // Also here, so that only a primary's program is worked on.
        let control = Arc::clone(self.devices.find(request.device_id)?);
        control.clients().check_primary(&request.role, election_id.as_ref())?;
        let action = request.action();
        let verified = match action {
            Action::Verify | Action::VerifyAndSave | Action::VerifyAndCommit | Action::ReconcileAndCommit => {
                let configuration = control.verify(request.config).await?;
                Some(control.fresh(configuration))
            }
            Action::Commit if request.config.is_some() => {
                return Err(Status::invalid_argument("COMMIT takes no config: it commits the one saved before"));
            }
            Action::Commit => None,
            Action::Unspecified => return Err(Status::invalid_argument("action is missing")),
        };
        to_its_end(async move {
            let mut pipelines = control.of_primary(&request.role, election_id.as_ref()).await?;
            match (action, verified) {
                (Action::Verify, _) => Ok(()),
                (Action::VerifyAndSave, saved) => {
                    pipelines.saved = saved;
                    Ok(())
                }
                (Action::ReconcileAndCommit, Some(next)) => control.reconcile(&mut pipelines, next).await,
                (_, verified) => {
                    let next = verified.or_else(|| pipelines.saved.take());
                    let next = next.ok_or_else(|| Status::not_found("COMMIT: no config was saved"))?;
                    control.commit(&mut pipelines, next).await
                }
            }
        })
        .await?;
        Ok(Response::new(p4::SetForwardingPipelineConfigResponse {}))
    }

    async fn get_forwarding_pipeline_config(
        &self,
        request: Request<p4::GetForwardingPipelineConfigRequest>,
    ) -> Result<Response<p4::GetForwardingPipelineConfigResponse>, Status> {
        let request = request.into_inner();
        let mut pipelines = self.devices.find(request.device_id)?.pipelines.lock().await;
        let mut config = pipelines.current()?.message.clone();
        match request.response_type() {
            ResponseType::All => {}
            ResponseType::CookieOnly => (config.p4info, config.p4_device_config) = (None, vec![]),
            ResponseType::P4infoAndCookie => config.p4_device_config.clear(),
            ResponseType::DeviceConfigAndCookie => config.p4info = None,
        }
        Ok(Response::new(p4::GetForwardingPipelineConfigResponse { config: Some(config) }))
    }

    async fn stream_channel(
        &self,
        request: Request<Streaming<p4::StreamMessageRequest>>,
    ) -> Result<Response<Self::StreamChannelStream>, Status> {
        let (sender, receiver) = tokio::sync::mpsc::channel(STREAM_BACKLOG);
        let stream = ClientStream::open(&self.devices, sender)?;
        tokio::spawn(stream.serve(self.devices.clone(), request.into_inner()));
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn capabilities(
        &self,
        _request: Request<p4::CapabilitiesRequest>,
    ) -> Result<Response<p4::CapabilitiesResponse>, Status> {
        let p4runtime_api_version = API_VERSION.into();
        Ok(Response::new(p4::CapabilitiesResponse { p4runtime_api_version, ..Default::default() }))
    }
}
