//! `chatgxy`: reads the settings, does what the command line says.

mod cli;

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
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
