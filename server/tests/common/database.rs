//! A fresh database for each test, on either engine.

use std::any::Any;

use app::ssr::db::Db;
use sqlx::{AssertSqlSafe, Connection, PgConnection};

/// The engines that everything must work on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    Sqlite,
    Postgres,
}

/// Opens an empty store; what comes with it keeps its files.
pub async fn fresh_database(engine: Engine) -> (Db, Box<dyn Any + Send>) {
    match engine {
        Engine::Sqlite => {
            let dir = tempfile::tempdir().unwrap();
            let url = format!("sqlite://{}/chatgxy.db", dir.path().display());
            (Db::open(&url).await.unwrap(), Box::new(dir))
        }
        Engine::Postgres => (Db::open(&fresh_url().await).await.unwrap(), Box::new(())),
    }
}

/// The URL of an empty PostgreSQL database on the test server.
pub async fn fresh_url() -> String {
    let server = std::env::var("CHATGXY_TEST_POSTGRES")
        .expect("CHATGXY_TEST_POSTGRES names no server; run the tests by `make test` or scripts/with-postgres.sh");
    let name = format!("test_{}", uuid::Uuid::new_v4().simple());
    let mut connection = PgConnection::connect(&server).await.unwrap();
    sqlx::query(AssertSqlSafe(format!("create database {name}"))).execute(&mut connection).await.unwrap();
    let (base, query) = server.split_once('?').map_or((server.as_str(), ""), |(base, query)| (base, query));
    let (base, _) = base.rsplit_once('/').unwrap();
    if query.is_empty() { format!("{base}/{name}") } else { format!("{base}/{name}?{query}") }
}
