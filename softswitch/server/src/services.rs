//! Two gRPC services at one address.
// SPDX-License-Identifier: Apache-2.0
use std::convert::Infallible;

use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tonic::codegen::{BoxFuture, Context, Poll, Service};
use tonic::server::NamedService;

/// Dispatches each request to the service that its path names. Both report unknown methods themselves.
#[derive(Clone)]
pub struct Services<First, Second> {
    /// Has the requests whose path begins with its name.
    pub first: First,
    /// Has all others.
    pub second: Second,
}

/// A gRPC service as tonic generates it.
pub trait Grpc: Service<Request<Body>, Response = Response<Body>, Error = Infallible> {}
impl<S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>> Grpc for S {}

impl<First, Second> Service<Request<Body>> for Services<First, Second>
where
    First: Grpc<Future = BoxFuture<Response<Body>, Infallible>> + NamedService,
    Second: Grpc<Future = BoxFuture<Response<Body>, Infallible>>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Response<Body>, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        // As both are: they hold nothing back.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let path = request.uri().path().strip_prefix('/').and_then(|path| path.strip_prefix(First::NAME));
        match path.is_some_and(|method| method.starts_with('/')) {
            true => self.first.call(request),
            false => self.second.call(request),
        }
    }
}
