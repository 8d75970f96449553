// SPDX-License-Identifier: Apache-2.0
//! An HTTP server for one page, `/metrics`.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::{IpAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{HeaderValue, ALLOW, CONTENT_TYPE, HOST};
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
/// How long a client may take to send its request and to read the answer, after which its connection ends.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long to wait after a connection could not be accepted: descriptors may have run out.
const PAUSE: Duration = Duration::from_millis(100);

/// Makes the text of a page. Boxed: the server is compiled once, and not again for every program that has one.
type Text = Box<dyn Fn() -> Pin<Box<dyn Future<Output = String>>> + Send>;

/// A socket on which no client is served yet.
pub struct Endpoint {
    listener: Listener,
    /// Names by which requests may ask for this machine, beside addresses; any where there is no network.
    names: Option<Vec<String>>,
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
        let (listener, names) = match address {
            Address::Unix(path) => {
                let listener = UnixListener::bind(path)?;
                // No client can connect before this.
                std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
                listener.set_nonblocking(true)?;
                (Listener::Unix(listener), None)
            }
            Address::Tcp(address) => {
                let listener = TcpListener::bind(address)?;
                listener.set_nonblocking(true)?;
                let own = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
                let given = name_of(address);
                let names = ["localhost", own.trim(), given].map(str::to_ascii_lowercase).to_vec();
                (Listener::Tcp(listener), Some(names))
            }
        };
        Ok(Endpoint { listener, names })
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
            let text = Rc::new(Served { text, names: self.names });
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

/// What a connection is served with.
struct Served {
    text: Text,
    names: Option<Vec<String>>,
}

/// The name or address in `HOST:PORT`, without brackets.
fn name_of(host: &str) -> &str {
    let name = host.rsplit_once(':').map_or(host, |(name, port)| match port.parse::<u16>() {
        Ok(_) if !name.contains(':') || name.ends_with(']') => name,
        _ => host,
    });
    name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name)
}

/// Whether a request asks for this machine by an address or by a name of its own. A script of another site whose name
/// it lets resolve to this machine would send that site's name.
fn is_own(host: Option<&HeaderValue>, names: &[String]) -> bool {
    let name = host.and_then(|host| host.to_str().ok()).map_or("", name_of).to_ascii_lowercase();
    name.parse::<IpAddr>().is_ok() || (!name.is_empty() && names.contains(&name))
}

async fn accept<S: AsyncRead + AsyncWrite + Unpin + 'static>(
    next: impl AsyncFn() -> io::Result<S>,
    served: &Rc<Served>,
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
        let served = Rc::clone(served);
        tokio::task::spawn_local(async move {
            let service = service_fn(|request| answer(request, &served));
            let mut server = http1::Builder::new();
            // One request each: a client that is silent, or does not read, keeps its place for a limited time.
            server.timer(TokioTimer::new()).header_read_timeout(PATIENCE).keep_alive(false);
            let connection = server.serve_connection(TokioIo::new(stream), service);
            // If a client goes away, or sends something other than HTTP, only its own connection ends.
            let _ = tokio::time::timeout(PATIENCE, connection).await;
            drop(place);
        });
    }
}

async fn answer(request: Request<Incoming>, served: &Served) -> Result<Response<Full<Bytes>>, Infallible> {
    let refused = |status, body: &'static str| {
        let mut response = Response::new(Full::new(Bytes::from_static(body.as_bytes())));
        *response.status_mut() = status;
        response
    };
    if served.names.as_ref().is_some_and(|names| !is_own(request.headers().get(HOST), names)) {
        return Ok(refused(StatusCode::FORBIDDEN, "allowed: this machine's address or name as Host\n"));
    }
    if request.uri().path() != "/metrics" {
        return Ok(refused(StatusCode::NOT_FOUND, "there is only /metrics\n"));
    }
    if request.method() != Method::GET && request.method() != Method::HEAD {
        let mut response = refused(StatusCode::METHOD_NOT_ALLOWED, "allowed: GET, HEAD\n");
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return Ok(response);
    }
    let mut response = Response::new(Full::new(Bytes::from((served.text)().await)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(CONTENT));
    Ok(response)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;
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
    #[test]
    fn only_names_of_this_machine_are_answered() {
        let names = ["localhost", "lab1"].map(String::from);
        let own = |host: &'static str| is_own(Some(&HeaderValue::from_static(host)), &names);
        for host in ["127.0.0.1:9464", "[::1]:9464", "::1", "10.0.0.7", "LocalHost:1", "lab1:9464"] {
            assert!(own(host), "{host}");
        }
        for host in ["attacker.example", "attacker.example:9464", "", ":9464", "localhost.attacker.example", "[::1"] {
            assert!(!own(host), "{host}");
        }
        assert!(!is_own(None, &names));
    }

    fn request(port: u16, host: &str) -> TcpStream {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("connected");
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n").expect("sent");
        stream
    }

    #[test]
    fn clients_that_never_read_do_not_keep_others_out() {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|one| one.local_addr()).expect("a port").port();
        let endpoint = Endpoint::open(&Address::Tcp(format!("127.0.0.1:{port}"))).expect("opened");
        // More than the kernel takes for a client that does not read.
        let page = "x".repeat(16 << 20);
        endpoint.serve(move || std::future::ready(page.clone())).expect("served");
        let silent: Vec<_> = (0..CONNECTIONS).map(|_| request(port, "localhost")).collect();
        let mut answer = String::new();
        let mut refused = request(port, "attacker.example");
        refused.set_read_timeout(Some(PATIENCE * 12)).expect("set");
        refused.read_to_string(&mut answer).expect("answered");
        assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
        drop(silent);
    }
}
