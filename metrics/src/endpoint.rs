// SPDX-License-Identifier: Apache-2.0
//! An HTTP server for one page, `/metrics`.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{HeaderValue, ALLOW, CONTENT_TYPE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;

use crate::address::Address;

const CONTENT: &str = "text/plain; version=0.0.4; charset=utf-8";
/// How many connections there can be at once; others wait.
const CONNECTIONS: usize = 16;
/// How long a client may take for a request, and how long it may be silent between two requests.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long to wait after a connection could not be accepted: descriptors may have run out.
const PAUSE: Duration = Duration::from_millis(100);

/// Makes the text of a page. Boxed: the server is compiled once, and not again for every program that has one.
type Text = Box<dyn Fn() -> Pin<Box<dyn Future<Output = String>>> + Send>;

/// A socket on which no client is served yet.
pub struct Endpoint {
    listener: Listener,
}

enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Endpoint {
    /// Opens the socket, before a program gives up its privileges. An existing socket file is not replaced.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn open(address: &Address) -> io::Result<Self> {
        let listener = match address {
            Address::Unix(path) => {
                let listener = UnixListener::bind(path)?;
                // No client can connect before this.
                std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
                listener.set_nonblocking(true)?;
                Listener::Unix(listener)
            }
            Address::Tcp(address) => {
                let listener = TcpListener::bind(address)?;
                listener.set_nonblocking(true)?;
                Listener::Tcp(listener)
            }
        };
        Ok(Endpoint { listener })
    }

    /// Serves what `text` returns, anew for every request, in a thread that ends with the program.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn serve<T, F>(self, text: T) -> io::Result<()>
    where
        T: Fn() -> F + Send + 'static,
        F: Future<Output = String> + 'static,
    {
        self.serve_boxed(Box::new(move || Box::pin(text())))
    }

    fn serve_boxed(self, text: Text) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let serving = move || {
            let text = Rc::new(text);
            let served = tokio::task::LocalSet::new();
            served.block_on(&runtime, async {
                let places = Arc::new(Semaphore::new(CONNECTIONS));
                match self.listener {
                    Listener::Unix(listener) => {
                        let listener = tokio::net::UnixListener::from_std(listener)?;
                        accept(async || listener.accept().await.map(|(stream, _)| stream), &text, &places).await
                    }
                    Listener::Tcp(listener) => {
                        let listener = tokio::net::TcpListener::from_std(listener)?;
                        accept(async || listener.accept().await.map(|(stream, _)| stream), &text, &places).await
                    }
                }
            })
        };
        let thread = std::thread::Builder::new().name("metrics".into());
        thread.spawn(move || -> io::Result<Infallible> { serving() }).map(|_| ())
    }
}

async fn accept<S: AsyncRead + AsyncWrite + Unpin + 'static>(
    next: impl AsyncFn() -> io::Result<S>,
    text: &Rc<Text>,
    places: &Arc<Semaphore>,
) -> io::Result<Infallible> {
    loop {
        let Ok(place) = Arc::clone(places).acquire_owned().await else {
            return Err(io::Error::other("no places"));
        };
        let Ok(stream) = next().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let text = Rc::clone(text);
        tokio::task::spawn_local(async move {
            let service = service_fn(|request| answer(request, &text));
            let mut server = http1::Builder::new();
            server.timer(TokioTimer::new()).header_read_timeout(PATIENCE);
            // If a client goes away, or sends something other than HTTP, only its own connection ends.
            let _ = server.serve_connection(TokioIo::new(stream), service).await;
            drop(place);
        });
    }
}

async fn answer(request: Request<Incoming>, text: &Text) -> Result<Response<Full<Bytes>>, Infallible> {
    let refused = |status, body: &'static str| {
        let mut response = Response::new(Full::new(Bytes::from_static(body.as_bytes())));
        *response.status_mut() = status;
        response
    };
    if request.uri().path() != "/metrics" {
        return Ok(refused(StatusCode::NOT_FOUND, "there is only /metrics\n"));
    }
    if request.method() != Method::GET && request.method() != Method::HEAD {
        let mut response = refused(StatusCode::METHOD_NOT_ALLOWED, "allowed: GET, HEAD\n");
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return Ok(response);
    }
    let mut response = Response::new(Full::new(Bytes::from(text().await)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(CONTENT));
    Ok(response)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    fn ask(path: &std::path::Path, request: &str) -> String {
        let mut stream = UnixStream::connect(path).expect("connected");
        write!(stream, "{request} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("answered");
        answer
    }

    #[test]
    fn every_request_gets_the_figures_of_its_moment() {
        let path = std::env::temp_dir().join(format!("narrows-metrics-{}.sock", std::process::id()));
        let endpoint = Endpoint::open(&Address::Unix(path.clone())).expect("opened");
        assert!(Endpoint::open(&Address::Unix(path.clone())).is_err(), "a socket is not taken from its owner");
        let asked = AtomicU32::new(0);
        let text = move || {
            let number = asked.fetch_add(1, Ordering::Relaxed);
            async move { format!("asked {number}\n") }
        };
        endpoint.serve(text).expect("served");
        // A client that connects and sends nothing does not hold up others.
        let _silent = UnixStream::connect(&path).expect("connected");
        for number in 0..3 {
            let answer = ask(&path, "GET /metrics");
            assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
            assert!(answer.contains("content-type: text/plain; version=0.0.4"), "{answer}");
            assert!(answer.ends_with(&format!("\r\n\r\nasked {number}\n")), "{answer}");
        }
        assert!(ask(&path, "GET /").starts_with("HTTP/1.1 404 "));
        assert!(ask(&path, "POST /metrics").starts_with("HTTP/1.1 405 "));
        assert!(ask(&path, "nonsense").starts_with("HTTP/1.1 400 "));
        std::fs::remove_file(&path).expect("removed");
    }
}
