//! `chatgxy`: reads the settings, does what the command line says.

mod cli;

use std::process::ExitCode;

/// Large enough for the answers that are made most often.
const LARGE: usize = 2 << 20;

#[tokio::main]
async fn main() -> ExitCode {
    // glibc's allocator gives every piece above 128 kB back to the system and fetches the next one page by page, which costs more than
    // what is done with it, until one has been freed: from then on it keeps pieces up to that size.
    drop(std::hint::black_box(vec![1_u8; LARGE]));
    match cli::run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(cli::Failed::Settings(lines)) => {
            eprintln!("{lines}");
            ExitCode::from(2)
        }
        Err(cli::Failed::Work(line)) => {
            eprintln!("chatgxy: {line}");
            ExitCode::FAILURE
        }
    }
}
