//! The scripted model of the tests as a process of its own:
//! `cargo run -p server --example scripted_model -- --port 8081`, then
//! `CHATGXY_MODEL=openai:slow CHATGXY_MODEL_BASE_URL=http://127.0.0.1:8081/v1`.

#[path = "../tests/common/scripted.rs"]
mod scripted;

use std::io::{self, Write};

use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let port: u16 = match &arguments[..] {
        [] => 0,
        [name, port] if name == "--port" => port.parse().map_err(|_| wrong())?,
        _ => return Err(wrong()),
    };
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    let mut out = io::stdout();
    writeln!(out, "listening on {}", listener.local_addr()?)?;
    out.flush()?;
    axum::serve(listener, scripted::router()).await
}

fn wrong() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "usage: scripted_model [--port PORT]")
}
