//! A server of tools for tests: the Model Context Protocol on standard input and output, a line a message, by hand.
//!
//! `scripted_mcp [FILE]`: each call that runs adds a line to the file, `NAME ARGUMENTS`. It lists its tools in two pages.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

const PARSE_ERROR: i64 = -32700;
const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;
/// The cursor of the second page.
const SECOND: &str = "second";

/// What the calls share.
struct Server {
    log: Option<Mutex<File>>,
    /// The ids of requests that the client does not wait for any more.
    cancelled: Mutex<HashSet<String>>,
}

type Answer = Result<Value, (i64, String)>;

fn main() -> io::Result<()> {
    let file = std::env::args_os().nth(1);
    let log = file.map(|file| OpenOptions::new().create(true).append(true).open(file)).transpose()?;
    let server = Arc::new(Server { log: log.map(Mutex::new), cancelled: Mutex::default() });
    for line in io::stdin().lock().lines() {
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        match serde_json::from_str(&line) {
            Ok(message) => server.take(message)?,
            Err(error) => answer(&Value::Null, Err((PARSE_ERROR, error.to_string())))?,
        }
    }
    Ok(())
}

impl Server {
    fn take(self: &Arc<Self>, message: Value) -> io::Result<()> {
        let method = message["method"].as_str().unwrap_or_default();
        let Some(id) = message.get("id").cloned() else {
            if method == "notifications/cancelled" {
                self.cancelled.lock().unwrap_or_else(PoisonError::into_inner).insert(message["params"]["requestId"].to_string());
            }
            return Ok(());
        };
        match method {
            "initialize" => answer(&id, Ok(hello(&message["params"]))),
            "ping" => answer(&id, Ok(json!({}))),
            "tools/list" => answer(&id, Ok(list(&message["params"]))),
            "tools/call" => {
                // A slow call does not hold up the others.
                let server = self.clone();
                thread::spawn(move || server.call(&id, &message["params"]));
                Ok(())
            }
            _ => answer(&id, Err((METHOD_NOT_FOUND, format!("there is no method {method}")))),
        }
    }

    fn call(&self, id: &Value, params: &Value) -> io::Result<()> {
        let name = params["name"].as_str().unwrap_or_default();
        let input = &params["arguments"];
        let wrong = |what: &str| Err((INVALID_PARAMS, format!("{name} takes {what}")));
        let result = match name {
            "echo" => input["text"].as_str().map_or_else(|| wrong("a text"), |given| Ok(text(given))),
            "add" => match (input["a"].as_f64(), input["b"].as_f64()) {
                (Some(a), Some(b)) => Ok(sum(a + b)),
                _ => wrong("two numbers"),
            },
            "slow" => input["ms"].as_u64().map_or_else(|| wrong("milliseconds"), |ms| Ok(text(&format!("slept {ms} ms")))),
            "fail" => Ok(json!({ "content": [{ "type": "text", "text": "it went wrong" }], "isError": true })),
            "odd name!" => Ok(text("odd")),
            // It never answers.
            "die" => Ok(Value::Null),
            _ => Err((INVALID_PARAMS, format!("there is no tool {name}"))),
        };
        if result.is_ok() {
            self.note(name, input)?;
        }
        if name == "die" {
            std::process::exit(1);
        }
        if let ("slow", Some(ms)) = (name, input["ms"].as_u64()) {
            self.sleep(id, Duration::from_millis(ms));
        }
        if self.is_cancelled(id) { Ok(()) } else { answer(id, result) }
    }

    fn note(&self, name: &str, input: &Value) -> io::Result<()> {
        let Some(log) = &self.log else { return Ok(()) };
        // One write a line: others may append to the file, too.
        log.lock().unwrap_or_else(PoisonError::into_inner).write_all(format!("{name} {input}\n").as_bytes())
    }

    fn sleep(&self, id: &Value, duration: Duration) {
        let start = Instant::now();
        while start.elapsed() < duration && !self.is_cancelled(id) {
            thread::sleep(Duration::from_millis(5).min(duration));
        }
    }

    fn is_cancelled(&self, id: &Value) -> bool {
        self.cancelled.lock().unwrap_or_else(PoisonError::into_inner).contains(&id.to_string())
    }
}

fn answer(id: &Value, answer: Answer) -> io::Result<()> {
    let message = match answer {
        Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
        Err((code, message)) => json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } }),
    };
    let mut out = io::stdout().lock();
    writeln!(out, "{message}")?;
    out.flush()
}

fn hello(params: &Value) -> Value {
    json!({
        "protocolVersion": params["protocolVersion"],
        "capabilities": { "tools": {} },
        "serverInfo": { "name": "scripted_mcp", "version": "1" },
    })
}

fn list(params: &Value) -> Value {
    let tool = |name: &str, properties: Value| {
        let required: Vec<String> = properties.as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect();
        let schema = json!({ "type": "object", "properties": properties, "required": required });
        json!({ "name": name, "description": format!("The tool {name} of the tests."), "inputSchema": schema })
    };
    if params["cursor"] == SECOND {
        return json!({ "tools": [tool("slow", json!({ "ms": { "type": "integer", "minimum": 0 } })), tool("die", json!({})), tool("odd name!", json!({}))] });
    }
    let mut echo = tool("echo", json!({ "text": { "type": "string" } }));
    echo["title"] = json!("Echo");
    echo["annotations"] = json!({ "readOnlyHint": true });
    let add = tool("add", json!({ "a": { "type": "number" }, "b": { "type": "number" } }));
    json!({ "tools": [echo, add, tool("fail", json!({}))], "nextCursor": SECOND })
}

fn text(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }] })
}

fn sum(sum: f64) -> Value {
    json!({ "content": [{ "type": "text", "text": sum.to_string() }], "structuredContent": { "sum": sum } })
}
