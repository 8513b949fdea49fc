//! A server that writes exactly the bytes it is told to.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// What the server does with a connection after it has read the request; then it closes it.
#[derive(Clone)]
pub enum Act {
    Write(String),
    /// One byte in every packet.
    Drip(String),
    Pause(Duration),
    /// Waits until the other side closes.
    Hold,
}

pub struct Wire {
    pub url: String,
    requests: Arc<Mutex<Vec<String>>>,
    closed: Arc<Notify>,
}

pub fn head(status: &str, more: &str) -> Act {
    Act::Write(format!("HTTP/1.1 {status}\r\n{more}connection: close\r\n\r\n"))
}

pub fn sse() -> Act {
    head("200 OK", "content-type: text/event-stream\r\n")
}

/// One event of a stream of chat completions.
pub fn delta(text: &str) -> String {
    event(&serde_json::json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
        "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": null}]}))
}

pub fn event(json: &serde_json::Value) -> String {
    format!("data: {json}\n\n")
}

pub fn done() -> String {
    event(&serde_json::json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
        "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}}))
        + "data: [DONE]\n\n"
}

impl Wire {
    /// Serves every connection by `acts`.
    pub async fn new(acts: Vec<Act>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (requests, closed) = (Arc::<Mutex<Vec<String>>>::default(), Arc::<Notify>::default());
        let (log, gone) = (requests.clone(), closed.clone());
        tokio::spawn(async move {
            while let Ok((peer, _)) = listener.accept().await {
                tokio::spawn(serve(peer, acts.clone(), log.clone(), gone.clone()));
            }
        });
        Self { url, requests, closed }
    }

    /// What was asked, head and body.
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    /// Waits until the client closed a held connection.
    pub async fn closed(&self) {
        tokio::time::timeout(Duration::from_secs(1), self.closed.notified()).await.expect("the connection stayed open");
    }
}

async fn serve(mut peer: TcpStream, acts: Vec<Act>, log: Arc<Mutex<Vec<String>>>, gone: Arc<Notify>) {
    peer.set_nodelay(true).unwrap();
    let request = read_request(&mut peer).await;
    log.lock().unwrap().push(request);
    for act in acts {
        match act {
            Act::Write(text) => {
                if peer.write_all(text.as_bytes()).await.is_err() {
                    return gone.notify_one();
                }
            }
            Act::Drip(text) => {
                for byte in text.bytes() {
                    peer.write_all(&[byte]).await.unwrap();
                    peer.flush().await.unwrap();
                    tokio::task::yield_now().await;
                }
            }
            Act::Pause(time) => tokio::time::sleep(time).await,
            Act::Hold => {
                let mut rest = Vec::new();
                let _ = peer.read_to_end(&mut rest).await;
                gone.notify_one();
            }
        }
    }
}

async fn read_request(peer: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    loop {
        let mut part = [0; 4096];
        let count = peer.read(&mut part).await.unwrap_or(0);
        bytes.extend_from_slice(&part[..count]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            assert_ne!(count, 0, "the request broke off");
            continue;
        };
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().unwrap())
        });
        if count == 0 || body.len() >= length.unwrap_or(0) {
            return text;
        }
    }
}
