//! Finds a local Ollama, so that a first run without any configuration answers with a real model where there is one.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use rig_reqwest::reqwest::Url;
use serde::Deserialize;

use crate::ssr::llm::remote::plain_client;

/// Where an Ollama listens that nobody configured.
pub const DEFAULT_ADDRESS: &str = "http://127.0.0.1:11434";
const DEFAULT_PORT: u16 = 11434;
/// A local server answers within this; waiting longer would only slow every start without one.
const PATIENCE: Duration = Duration::from_millis(300);

/// What `OLLAMA_HOST` means for a client. Ollama's own server reads the same variable as the address to listen on, so
/// `0.0.0.0`, a bare port and a missing scheme are usual.
pub fn address(host: &str) -> Result<String, String> {
    let wrong = || format!("OLLAMA_HOST={host}: expected a host, host:port or http(s)://host:port");
    let bare = !host.contains("://");
    let text = match host {
        _ if !bare => host.to_owned(),
        _ if host.starts_with(':') => format!("http://127.0.0.1{host}"),
        _ => format!("http://{host}"),
    };
    let mut url = Url::parse(&text).map_err(|_| wrong())?;
    if !matches!(url.scheme(), "http" | "https") || !url.username().is_empty() || url.password().is_some() {
        return Err(wrong());
    }
    if bare && url.port().is_none() && !text.ends_with(":80") {
        url.set_port(Some(DEFAULT_PORT)).map_err(|()| wrong())?;
    }
    match url.host_str().ok_or_else(wrong)? {
        "0.0.0.0" => url.set_ip_host(Ipv4Addr::LOCALHOST.into()).map_err(|()| wrong())?,
        "[::]" => url.set_ip_host(Ipv6Addr::LOCALHOST.into()).map_err(|()| wrong())?,
        _ => {}
    }
    url.set_query(None);
    url.set_fragment(None);
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

#[derive(Deserialize)]
struct Listing {
    models: Vec<Listed>,
}

#[derive(Deserialize)]
struct Listed {
    name: String,
}

/// The first model that can chat of the Ollama at `address`, or nothing when none answers in time.
pub async fn first_model(address: &str) -> Option<String> {
    let listing = async {
        let reply = plain_client(address, PATIENCE).ok()?.get(format!("{address}/api/tags")).send().await.ok()?;
        let body = reply.error_for_status().ok()?.bytes().await.ok()?;
        serde_json::from_slice::<Listing>(&body).ok()
    };
    let listing = tokio::time::timeout(PATIENCE, listing).await.ok()??;
    // Models that only embed are listed too, and they are named so.
    listing.models.into_iter().map(|model| model.name).find(|name| !name.contains("embed"))
}
