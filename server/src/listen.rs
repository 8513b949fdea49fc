//! Connections: how many there may be, and how long one may keep the server waiting.
//!
//! A client that sends its request byte by byte, or never reads the answer, costs a place and nothing else, and loses it in time. A
//! stream of an answer may last as long as it is read.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use app::ssr::account::network;
use axum::Router;
use axum::extract::{ConnectInfo, Request};
use futures::FutureExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::Sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Most bytes of a request's head.
const HEAD_BYTES: usize = 64 * 1024;
/// How long to wait when the system has no more connections to give.
const EXHAUSTED: Duration = Duration::from_secs(1);

/// What connections may take.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections at once; more wait until others are closed.
    pub connections: usize,
    /// From one address; more are closed at once.
    pub an_address: usize,
    /// Addresses that stand for many people, which have no limit of their own.
    pub proxies: Vec<ipnet::IpNet>,
    /// How long the head of a request may take, and how long a connection may be idle between requests.
    pub head: Duration,
    /// How long a client may read nothing of what is sent to it.
    pub unread: Duration,
}

/// Serves connections until `closing`, then lets each finish the request it is in.
pub async fn serve(listener: TcpListener, router: Router, limits: Limits, closing: CancellationToken) {
    let places = Arc::new(Semaphore::new(limits.connections));
    let addresses = Addresses::default();
    let open = TaskTracker::new();
    let router = TowerToHyperService::new(router);
    loop {
        let next = async {
            let place = places.clone().acquire_owned().await;
            (place, listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            next = next => next,
            () = closing.cancelled() => break,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                if !is_of_one_connection(&error) {
                    tracing::error!(%error, "cannot take a connection");
                    tokio::time::sleep(EXHAUSTED).await;
                }
                continue;
            }
        };
        let ip = peer.ip().to_canonical();
        let most = if limits.proxies.iter().any(|range| range.contains(&ip)) { usize::MAX } else { limits.an_address };
        let Some(visit) = addresses.enter(network(ip), most) else {
            tracing::warn!(address = %ip, "too many connections from one address");
            continue;
        };
        // Small pieces of an answer must not wait for each other.
        let _ = stream.set_nodelay(true);
        let connection = connection(stream, peer, router.clone(), &limits, closing.clone());
        // Not in an async block, which would hold the connection twice.
        open.spawn(connection.map(move |()| drop((place, visit))));
    }
    drop(listener);
    open.close();
    open.wait().await;
}

/// One connection, from its first request to its end.
fn connection<S>(
    stream: TcpStream,
    peer: SocketAddr,
    router: S,
    limits: &Limits,
    closing: CancellationToken,
) -> impl Future<Output = ()> + use<S>
where
    S: Service<Request<Incoming>, Response = axum::response::Response, Error = Infallible> + Send + 'static,
    S::Future: Send,
{
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(peer));
        router.call(request)
    });
    let io = TokioIo::new(Watched { stream, unread: limits.unread, stuck: None });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(limits.head).max_buf_size(HEAD_BYTES);
    // In a box, since a task would hold it once for each time it is handed on.
    let mut serving = Box::pin(http.serve_connection(io, service));
    async move {
        let ended = tokio::select! {
            ended = &mut serving => ended,
            () = closing.cancelled() => {
                serving.as_mut().graceful_shutdown();
                serving.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection broke");
        }
    }
}

/// Whether only the connection that was to be taken is lost.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// How many connections each address has.
#[derive(Clone, Default)]
struct Addresses(Arc<Mutex<HashMap<IpAddr, usize>>>);

/// A connection that is counted until it is dropped.
struct Visit {
    addresses: Addresses,
    ip: IpAddr,
}

impl Addresses {
    fn enter(&self, ip: IpAddr, most: usize) -> Option<Visit> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(ip).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        Some(Visit { addresses: self.clone(), ip })
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        let mut counts = self.addresses.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.ip) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.ip);
            }
        }
    }
}

/// A stream that breaks when nothing of what is written to it goes out for a while.
struct Watched {
    stream: TcpStream,
    unread: Duration,
    /// Since a write is waiting.
    stuck: Option<Pin<Box<Sleep>>>,
}

impl Watched {
    fn watch<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stuck = None;
            return written;
        }
        let unread = self.unread;
        let stuck = self.stuck.get_or_insert_with(|| Box::pin(tokio::time::sleep(unread)));
        ready!(stuck.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read")))
    }
}

impl AsyncRead for Watched {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Watched {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.watch(cx, written)
    }

    fn poll_write_vectored(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bytes);
        self.watch(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use axum::body::Body;
    use axum::routing::get;
    use futures::stream;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    const SHORT: Duration = Duration::from_millis(300);
    const LONG: Duration = Duration::from_secs(20);

    struct Listening {
        addr: SocketAddr,
        closing: CancellationToken,
        served: tokio::task::JoinHandle<()>,
    }

    async fn listening(change: impl FnOnce(&mut Limits)) -> Listening {
        let endless = stream::repeat_with(|| Ok::<_, Infallible>(vec![b'x'; 64 * 1024]));
        let router = Router::new()
            .route("/", get(|ConnectInfo(peer): ConnectInfo<SocketAddr>| async move { peer.ip().to_string() }))
            .route("/endless", get(|| async { Body::from_stream(endless) }))
            .route(
                "/slow",
                get(|| async {
                    tokio::time::sleep(SHORT).await;
                    "done"
                }),
            );
        let mut limits = Limits { connections: 100, an_address: 100, proxies: Vec::new(), head: LONG, unread: LONG };
        change(&mut limits);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let closing = CancellationToken::new();
        let served = tokio::spawn(serve(listener, router, limits, closing.clone()));
        Listening { addr, closing, served }
    }

    async fn connect(server: &Listening, sent: &str) -> TcpStream {
        let mut stream = TcpStream::connect(server.addr).await.unwrap();
        stream.write_all(sent.as_bytes()).await.unwrap();
        stream
    }

    /// What comes until the server closes.
    async fn all(mut stream: TcpStream) -> String {
        let mut text = Vec::new();
        let read = tokio::time::timeout(LONG / 2, stream.read_to_end(&mut text)).await.expect("the server closes it");
        // A reset is an end as well.
        drop(read);
        String::from_utf8_lossy(&text).into_owned()
    }

    const ASK: &str = "GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";

    #[tokio::test]
    async fn a_request_is_answered_and_its_peer_is_known() {
        let server = listening(|_| {}).await;
        let answer = all(connect(&server, ASK).await).await;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("127.0.0.1"), "{answer}");
    }

    #[tokio::test]
    async fn a_head_that_does_not_come_loses_its_place() {
        let server = listening(|limits| limits.head = SHORT).await;
        for sent in ["", "GET / HTTP/1.1\r\nhost: x\r\nx-slow: ", "GET / HTTP/1.1\r\nhost: x\r\n\r\n"] {
            let begun = Instant::now();
            all(connect(&server, sent).await).await;
            assert!(begun.elapsed() >= SHORT && begun.elapsed() < LONG / 2, "{sent:?} after {:?}", begun.elapsed());
        }
    }

    #[tokio::test]
    async fn who_reads_nothing_loses_the_place_and_who_reads_slowly_keeps_it() {
        let server = listening(|limits| (limits.unread, limits.connections) = (SHORT, 1)).await;
        let mut slow = connect(&server, "GET /endless HTTP/1.1\r\nhost: x\r\n\r\n").await;
        let begun = Instant::now();
        let mut piece = vec![0; 1 << 20];
        while begun.elapsed() < SHORT * 4 {
            assert!(slow.read(&mut piece).await.unwrap() > 0);
            tokio::time::sleep(SHORT / 20).await;
        }
        // The one place is taken until nothing is read any more.
        let waiting = all(connect(&server, ASK).await).await;
        assert!(waiting.starts_with("HTTP/1.1 200 OK\r\n"), "{waiting}");
    }

    #[tokio::test]
    async fn one_address_has_so_many_connections_but_a_proxy_any_number() {
        let server = listening(|limits| limits.an_address = 2).await;
        let first = connect(&server, "").await;
        let _second = connect(&server, "").await;
        assert_eq!(all(connect(&server, ASK).await).await, "");
        drop(first);
        // Its end is seen by the server a moment later.
        let begun = Instant::now();
        while all(connect(&server, ASK).await).await.is_empty() {
            assert!(begun.elapsed() < LONG / 2);
        }
        let server = listening(|limits| (limits.an_address, limits.proxies) = (0, vec!["127.0.0.0/8".parse().unwrap()])).await;
        assert!(all(connect(&server, ASK).await).await.starts_with("HTTP/1.1 200 OK\r\n"));
    }

    #[tokio::test]
    async fn a_head_that_is_too_long_is_refused() {
        let server = listening(|_| {}).await;
        let long = format!("GET / HTTP/1.1\r\nhost: x\r\nx-long: {}\r\n\r\n", "x".repeat(2 * HEAD_BYTES));
        let answer = all(connect(&server, &long).await).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
    }

    #[tokio::test]
    async fn at_the_end_a_request_is_finished_and_nothing_new_is_taken() {
        let server = listening(|_| {}).await;
        let mut slow = connect(&server, "GET /slow HTTP/1.1\r\nhost: x\r\n\r\n").await;
        tokio::time::sleep(SHORT / 3).await;
        server.closing.cancel();
        let mut text = String::new();
        slow.read_to_string(&mut text).await.unwrap();
        assert!(text.ends_with("done"), "{text}");
        tokio::time::timeout(LONG, server.served).await.unwrap().unwrap();
        assert!(TcpStream::connect(server.addr).await.is_err());
    }
}
