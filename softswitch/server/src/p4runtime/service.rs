//! The RPCs of p4.v1.P4Runtime.
// SPDX-License-Identifier: Apache-2.0
use std::sync::Arc;

use narrows_proto::p4::v1::{
    self as p4, entity::Entity, get_forwarding_pipeline_config_request::ResponseType, p4_runtime_server::P4Runtime,
    set_forwarding_pipeline_config_request::Action, update::Type, write_request::Atomicity,
};
use tokio::sync::mpsc::{error::SendError, Sender};
use tokio::sync::MutexGuard;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::control::{to_its_end, Control, Pipelines};
use super::error::{batch_status, UpdateError};
use super::read::{queries, Query, Replies};
use super::stream;
use super::write::{decode_update, Decoded, Operation};

/// Version of the P4Runtime specification that the server follows.
const API_VERSION: &str = "1.5.0";
/// Messages that wait for a client that reads its stream slowly.
const STREAM_BACKLOG: usize = 1_024;
/// Updates that are applied between the same two packets, so that a large batch does not hold up packets.
const UPDATES_AT_ONCE: usize = 64;

/// Serves p4.v1.P4Runtime.
#[derive(Clone)]
pub struct P4RuntimeService {
    control: Arc<Control>,
}

impl P4RuntimeService {
    /// A server over the shared control state.
    pub fn new(control: Arc<Control>) -> Self {
        P4RuntimeService { control }
    }

    /// Applies operations in order, a few between two packets.
    async fn apply(
        &self,
        pipelines: &mut Pipelines,
        operations: Vec<Operation>,
    ) -> Result<Vec<Result<(), UpdateError>>, Status> {
        let mut results = Vec::with_capacity(operations.len());
        let mut operations = operations.into_iter();
        while operations.len() > 0 {
            let part: Vec<Operation> = operations.by_ref().take(UPDATES_AT_ONCE).collect();
            let apply = move |unit: &mut _| part.into_iter().map(|operation| operation(unit)).collect();
            let done: Vec<_> = self.control.with_unit(pipelines, apply).await?;
            results.extend(done);
        }
        Ok(results)
    }

    fn configure_digest(
        &self,
        pipelines: &mut Pipelines,
        id: u32,
        config: Option<p4::digest_entry::Config>,
        kind: Type,
    ) -> Result<(), UpdateError> {
        let known = pipelines.current().ok().and_then(|current| current.schema.digests.get(&id).cloned());
        let known = known.ok_or_else(|| UpdateError::not_found(format!("there is no digest {id}")))?;
        self.control.with_digests(pipelines, |digests| {
            match (kind, digests.config(id).is_some()) {
                (Type::Insert, true) => {
                    return Err(UpdateError::new(tonic::Code::AlreadyExists, format!("digest entry {id} exists")));
                }
                (Type::Modify | Type::Delete, false) => {
                    return Err(UpdateError::not_found(format!("there is no digest entry {id}")));
                }
                _ => {}
            }
            digests.configure(id, &known, config);
            Ok(())
        })?;
        self.control.digests_changed.notify_one();
        Ok(())
    }

    /// Applies the parts of one update, packets between them, until one fails.
    async fn apply_parts(
        &self,
        pipelines: &mut Pipelines,
        parts: Vec<Operation>,
    ) -> Result<Result<(), UpdateError>, Status> {
        for part in parts {
            if let Err(error) = self.control.with_unit(pipelines, part).await? {
                return Ok(Err(error));
            }
        }
        Ok(Ok(()))
    }

    async fn write_all(
        &self,
        mut pipelines: MutexGuard<'_, Pipelines>,
        updates: &[p4::Update],
    ) -> Result<Vec<Result<(), UpdateError>>, Status> {
        let schema = Arc::clone(&pipelines.current()?.schema);
        let mut results: Vec<Result<(), UpdateError>> = updates.iter().map(|_| Ok(())).collect();
        let (mut positions, mut operations, mut cookies) = (vec![], vec![], vec![]);
        for (position, update) in updates.iter().enumerate() {
            match decode_update(&schema, update) {
                Ok(Decoded::Parts(parts)) => {
                    // Updates are applied in order.
                    let earlier = self.apply(&mut pipelines, std::mem::take(&mut operations)).await?;
                    for (position, result) in std::mem::take(&mut positions).into_iter().zip(earlier) {
                        results[position] = result;
                    }
                    results[position] = self.apply_parts(&mut pipelines, parts).await?;
                }
                Ok(Decoded::Operation(operation)) => {
                    positions.push(position);
                    operations.push(operation);
                }
                Ok(Decoded::Entry { key, cookie, operation }) => {
                    cookies.push((position, key, cookie));
                    positions.push(position);
                    operations.push(operation);
                }
                Ok(Decoded::Digest { id, config, kind }) => {
                    results[position] = self.configure_digest(&mut pipelines, id, config, kind);
                }
                Err(error) => results[position] = Err(error),
            }
        }
        for (position, result) in positions.into_iter().zip(self.apply(&mut pipelines, operations).await?) {
            results[position] = result;
        }
        let stored = Arc::make_mut(&mut pipelines.current()?.cookies);
        for (position, key, cookie) in cookies {
            if results[position].is_ok() {
                match cookie.filter(|cookie| *cookie != Default::default()) {
                    Some(cookie) => stored.insert(key, cookie),
                    None => stored.remove(&key),
                };
            }
        }
        Ok(results)
    }

    fn read_digests(&self, pipelines: &mut Pipelines, digest_id: u32) -> Result<Vec<p4::Entity>, Status> {
        let schema = Arc::clone(&pipelines.current()?.schema);
        let wanted = schema.digests.keys().copied().filter(|id| digest_id == 0 || *id == digest_id);
        Ok(self.control.with_digests(pipelines, |digests| {
            let entries =
                wanted.filter_map(|id| Some(p4::DigestEntry { digest_id: id, config: Some(digests.config(id)?) }));
            entries.map(|entry| p4::Entity { entity: Some(Entity::DigestEntry(entry)) }).collect()
        }))
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
        self.control.clients().check_device(request.device_id)?;
        if request.atomicity() != Atomicity::ContinueOnError {
            return Err(Status::unimplemented("atomicity: only CONTINUE_ON_ERROR is supported"));
        }
        let service = self.clone();
        let write = async move {
            let pipelines = service.control.of_primary(&request.role, request.election_id.as_ref()).await?;
            service.write_all(pipelines, &request.updates).await
        };
        batch_status(&to_its_end(write).await?)?;
        Ok(Response::new(p4::WriteResponse {}))
    }

    async fn read(&self, request: Request<p4::ReadRequest>) -> Result<Response<Self::ReadStream>, Status> {
        let request = request.into_inner();
        self.control.clients().check_device(request.device_id)?;
        let (sender, receiver) = tokio::sync::mpsc::channel(4);
        // Everything is decoded before the first answer, so that a bad request has none.
        let (mut answers, mut all) = (vec![], vec![]);
        {
            let mut pipelines = self.control.pipelines.lock().await;
            let current = pipelines.current()?;
            let (schema, cookies) = (Arc::clone(&current.schema), Arc::clone(&current.cookies));
            for entity in &request.entities {
                match &entity.entity {
                    Some(Entity::DigestEntry(wanted)) => {
                        answers.extend(self.read_digests(&mut pipelines, wanted.digest_id)?);
                    }
                    _ => all.extend(queries(&schema, &cookies, entity)?),
                }
            }
        }
        let control = Arc::clone(&self.control);
        tokio::spawn(async move {
            // An error means that the client disconnected.
            let _ = answer(&control, answers, all, &sender).await;
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
        self.control.clients().authorize(request.device_id, &request.role, election_id.as_ref())?;
        let action = request.action();
        let verified = match action {
            Action::Verify | Action::VerifyAndSave | Action::VerifyAndCommit => {
                let configuration = self.control.verify(request.config).await?;
                Some(self.control.fresh(configuration))
            }
            Action::Commit if request.config.is_some() => {
                return Err(Status::invalid_argument("COMMIT takes no config: it commits the one saved before"));
            }
            Action::Commit => None,
            Action::ReconcileAndCommit => {
                return Err(Status::unimplemented(
                    "RECONCILE_AND_COMMIT: use VERIFY_AND_COMMIT, which clears the tables",
                ));
            }
            Action::Unspecified => return Err(Status::invalid_argument("action is missing")),
        };
        let control = Arc::clone(&self.control);
        to_its_end(async move {
            let mut pipelines = control.of_primary(&request.role, election_id.as_ref()).await?;
            match (action, verified) {
                (Action::Verify, _) => Ok(()),
                (Action::VerifyAndSave, saved) => {
                    pipelines.saved = saved;
                    Ok(())
                }
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
        self.control.clients().check_device(request.device_id)?;
        let mut pipelines = self.control.pipelines.lock().await;
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
        let client = self.control.clients().connect()?;
        tokio::spawn(stream::serve(Arc::clone(&self.control), client, request.into_inner(), sender));
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

#[cfg(test)]
#[path = "../../../pipeline/tests/common/mod.rs"]
mod common;

#[cfg(test)]
mod tests {
    use narrows_proto::p4::config::v1::{
        p4_data_type_spec::TypeSpec, Digest, P4DataTypeSpec, P4Info, P4NamedType, Preamble,
    };
    use narrows_switch::io::{spawn, LoopSettings, Pace};
    use narrows_switch::switch::Switch;

    use super::{common, *};

    const DIGEST: u32 = 0x1700_0001;

    /// A program with a digest.
    fn config() -> p4::ForwardingPipelineConfig {
        let preamble = Some(Preamble { id: DIGEST, name: "learned".into(), ..Preamble::default() });
        let shape = TypeSpec::Struct(P4NamedType { name: "learned_t".into() });
        let digest = Digest { preamble, type_spec: Some(P4DataTypeSpec { type_spec: Some(shape) }) };
        let p4_device_config = common::program(serde_json::json!([]), serde_json::json!([])).to_string().into_bytes();
        let p4info = Some(P4Info { digests: vec![digest], ..P4Info::default() });
        p4::ForwardingPipelineConfig { p4info, p4_device_config, ..Default::default() }
    }

    /// What is configured of digests for a saved program comes with its COMMIT, and not before.
    #[test]
    fn digests_are_those_of_the_program_for_which_they_were_configured() {
        let settings = LoopSettings { busy_poll_ns: 0, spin_ns: 0, real_time: false };
        let (digests, _records) = tokio::sync::mpsc::channel(1);
        let running = spawn(Switch::new(&[], 1), vec![], Pace::RealTime(settings), digests).expect("threads");
        let service = P4RuntimeService::new(Arc::new(Control::new(1, running.handle.clone(), 1, None)));
        let control = &service.control;
        let lists_of = |max_list_size| Some(p4::digest_entry::Config { max_list_size, ..Default::default() });
        let in_use = || control.digests().config(DIGEST).map(|config| config.max_list_size);
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("runtime");
        runtime.block_on(async {
            let mut pipelines = control.pipelines.lock().await;
            let first = control.fresh(control.verify(Some(config())).await.expect("verified"));
            control.commit(&mut pipelines, first).await.expect("committed");
            let configure = |pipelines: &mut Pipelines, size, kind| {
                service.configure_digest(pipelines, DIGEST, lists_of(size), kind).map_err(|error| error.message)
            };
            assert_eq!(configure(&mut pipelines, 1, Type::Insert), Ok(()));

            pipelines.saved = Some(control.fresh(control.verify(Some(config())).await.expect("verified")));
            assert_eq!(configure(&mut pipelines, 2, Type::Insert), Ok(()), "the saved program has none yet");
            assert_eq!(configure(&mut pipelines, 3, Type::Modify), Ok(()));
            assert_eq!(in_use(), Some(1), "the program in the data path keeps its own");

            let saved = pipelines.saved.take().expect("saved");
            control.commit(&mut pipelines, saved).await.expect("committed");
            assert_eq!(in_use(), Some(3), "what was accepted for the saved program");
        });
        running.handle.stop();
        running.thread.join().expect("ends");
    }
}
