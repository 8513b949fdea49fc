//! One story of the store, told on SQLite and on PostgreSQL: every function that touches the database, on both.

#![allow(clippy::unwrap_used, reason = "a test may stop")]

mod common;

use app::model::agent::AgentType;
use app::model::event::{End, Interruption, TurnEvent, Usage};
use app::model::ids::{ExchangeUuid, PromptId, TurnId, TurnRow, UserId};
use app::model::part::{Runner, ToolState};
use app::model::turn::{Feedback, Prompt, Turn};
use app::model::user::Scope;
use app::ssr::db::audit::AuditRow;
use app::ssr::db::keys::NewKey;
use app::ssr::db::message::{Carried, StoredMessage};
use app::ssr::db::turns::{Advance, Begun, Lease, NewTurn, Sibling};
use app::ssr::db::users::NewAccount;
use app::ssr::db::writer::{EndWrite, Outcome, Write, Writer, Written};
use app::ssr::db::{Db, own_statements, statements};
use common::{Engine, fresh_database};
use sqlx::Executor;
use tokio::sync::oneshot;

const ENGINES: [Engine; 2] = [Engine::Sqlite, Engine::Postgres];

async fn user(db: &Db, email: &str) -> UserId {
    db.insert_user(&account(email)).await.unwrap().unwrap().id
}

fn account(email: &str) -> NewAccount<'_> {
    NewAccount { email, username: None, password_hash: None, admin: false, now: 1 }
}

fn lease(owner: &str, until: i64) -> Lease {
    Lease { owner: owner.into(), until }
}

fn question(user: UserId, exchange: &str, prompt: &str, now: i64) -> NewTurn {
    NewTurn {
        user,
        exchange: ExchangeUuid::parse(exchange).unwrap(),
        prompt: Prompt { id: PromptId::parse(prompt).unwrap(), text: format!("What is {prompt}?") },
        agent: AgentType::auto(),
        context: serde_json::Map::new(),
        id: TurnId::from(uuid::Uuid::now_v7()),
        now,
        lease: lease("me", now + 1_000),
    }
}

fn retry(user: UserId, of: &TurnId, now: i64) -> Sibling {
    let id = TurnId::from(uuid::Uuid::now_v7());
    Sibling { user, of: of.clone(), text: None, latest_only: true, id, now, lease: lease("me", now + 9_000) }
}

async fn begin(db: &Db, new: &NewTurn) -> Turn {
    match db.begin(new).await.unwrap() {
        Begun::New(turn, _) => *turn,
        other => panic!("not begun: {other:?}"),
    }
}

fn write(row: TurnRow, epoch: i64) -> Write {
    Write { row, epoch, events: Vec::new(), claims: Vec::new(), end: None, done: None }
}

/// Stores a write and waits for what becomes of it.
async fn store(writer: &Writer, write: Write) -> Outcome {
    let (done, outcome) = oneshot::channel();
    writer.write(Write { done: Some(done), ..write }).await;
    outcome.await.unwrap()
}

fn end_write(turn: &Turn, at: i64) -> EndWrite {
    let message = StoredMessage::of(turn, Carried::default()).to_json();
    let (state, usage) = (turn.state_name(), if turn.is_ended() { turn.usage } else { Usage::default() });
    EndWrite { state, message, until: turn.until(), agent: AgentType::router(), at, usage }
}

async fn end(writer: &Writer, turn: &mut Turn, epoch: i64, how: End, at: i64) -> Written {
    turn.apply(turn.seq + 1, &TurnEvent::Ended { at, how, finish: None }).unwrap();
    store(writer, Write { end: Some(end_write(turn, at)), ..write(turn.row, epoch) }).await.written
}

async fn happen(writer: &Writer, turn: &mut Turn, epoch: i64, event: TurnEvent) {
    turn.apply(turn.seq + 1, &event).unwrap();
    writer.write(Write { events: vec![(turn.seq, event)], ..write(turn.row, epoch) }).await;
}

async fn grow(writer: &Writer, turn: &mut Turn, epoch: i64, text: &str) {
    happen(writer, turn, epoch, TurnEvent::TextGrew { text: text.into() }).await;
}

/// Appends are not acknowledged one by one; this waits for all before it.
async fn flush(writer: &Writer) {
    assert_eq!(store(writer, write(TurnRow(-1), 1)).await.written, Written::Stored);
}

#[tokio::test]
async fn every_statement_is_accepted_by_both_engines() {
    for engine in ENGINES {
        let (db, _keep) = fresh_database(engine).await;
        for sql in statements().into_iter().chain(own_statements(&db)) {
            let prepared = match &db {
                Db::Sqlite { writer, .. } => writer.acquire().await.unwrap().prepare(sqlx::SqlStr::from_static(sql)).await.map(drop),
                Db::Postgres(pool) => pool.acquire().await.unwrap().prepare(sqlx::SqlStr::from_static(sql)).await.map(drop),
            };
            prepared.unwrap_or_else(|error| panic!("{engine:?} refuses {sql}: {error}"));
        }
    }
}

#[tokio::test]
async fn accounts_sessions_and_keys_are_kept_and_end_at_once() {
    for engine in ENGINES {
        let (db, _keep) = fresh_database(engine).await;
        let first = db.insert_user(&NewAccount { password_hash: Some("hash"), ..account("a@x.org") }).await.unwrap().unwrap();
        let second = db.insert_user(&NewAccount { username: Some("bee"), ..account("b@x.org") }).await.unwrap().unwrap();
        assert!(first.admin && !second.admin, "only the first account becomes administrator by itself");
        assert_eq!((first.username.as_str(), second.username.as_str()), ("a", "bee"));
        assert_eq!(db.insert_user(&account("a@x.org")).await.unwrap(), None, "an address is taken once");
        let bee = NewAccount { username: Some("bee"), ..account("d@x.org") };
        assert_eq!(db.insert_user(&bee).await.unwrap(), None, "a username is taken once");
        assert!(db.insert_user(&NewAccount { admin: true, ..account("c@x.org") }).await.unwrap().unwrap().admin);
        assert_eq!(db.users().await.unwrap().len(), 3);
        let account = db.account_by_email("a@x.org").await.unwrap().unwrap();
        assert_eq!((account.user(), account.password_hash.as_deref()), (first.clone(), Some("hash")));
        db.insert_session("h0", first.id, 10, 100).await.unwrap();
        db.set_password(first.id, "other").await.unwrap();
        assert!(db.session("h0", 50).await.unwrap().is_none(), "every session ends with the old password");
        assert_eq!(db.account_by_id(first.id).await.unwrap().unwrap().password_hash.as_deref(), Some("other"));

        db.insert_session("h1", first.id, 10, 100).await.unwrap();
        db.insert_session("h2", first.id, 10, 100).await.unwrap();
        assert_eq!(db.session("h1", 50).await.unwrap().unwrap().user(), first);
        assert!(db.session("h1", 100).await.unwrap().is_none(), "it runs out");
        db.extend_session("h1", 60, 200).await.unwrap();
        assert_eq!(db.session("h1", 150).await.unwrap().unwrap().seen_at, 60);
        db.delete_expired_sessions(120).await.unwrap();
        assert!(db.session("h2", 50).await.unwrap().is_none());
        assert_eq!(db.delete_session("h1").await.unwrap().as_deref(), Some("a@x.org"));
        assert_eq!(db.delete_session("h1").await.unwrap(), None);
        assert!(db.session("h1", 50).await.unwrap().is_none());
        db.insert_session("h3", first.id, 10, 100).await.unwrap();
        db.set_password(first.id, "third").await.unwrap();
        assert!(db.session("h3", 50).await.unwrap().is_none());

        let new = NewKey { user: first.id, name: "laptop", prefix: "chatgxy_abc", hash: "kh", scope: Scope::Admin, now: 5 };
        let key = db.insert_key(&new).await.unwrap();
        let owner = db.key_owner("kh").await.unwrap().unwrap();
        assert_eq!((owner.key_id, owner.user(), owner.used_at), (key, first.clone(), None));
        db.touch_key(key, 9).await.unwrap();
        assert_eq!(db.keys(first.id).await.unwrap()[0].used_at, Some(9));
        assert_eq!(db.delete_key(second.id, key).await.unwrap(), None, "not by someone else");
        assert_eq!(db.delete_key(first.id, key).await.unwrap().as_deref(), Some("chatgxy_abc"));
        assert!(db.key_owner("kh").await.unwrap().is_none());
        db.insert_key(&NewKey { scope: Scope::Read, ..new }).await.unwrap();
        let narrow = db.key_owner("kh").await.unwrap().unwrap();
        assert_eq!((narrow.scope(), narrow.user().admin), (Scope::Read, false), "an administrator only with the scope admin");
        assert_eq!(db.delete_keys_by_prefix("chatgxy_abc").await.unwrap(), ["chatgxy_abc"]);
    }
}

#[tokio::test]
async fn the_audit_log_is_kept_in_order_and_frequent_acts_once() {
    for engine in ENGINES {
        let (db, _keep) = fresh_database(engine).await;
        let row = |at, act: &str| AuditRow { at, act: act.into(), actor: "a@x.org".into(), subject: "k".into(), address: "::1".into() };
        db.insert_audit(&row(10, "signed-in"), None).await.unwrap();
        db.insert_audit(&row(20, "signed-in"), None).await.unwrap();
        db.insert_audit(&row(30, "key-used"), Some(25)).await.unwrap();
        db.insert_audit(&row(40, "key-used"), Some(25)).await.unwrap();
        db.insert_audit(&row(50, "key-used"), Some(35)).await.unwrap();
        let times = async |limit| db.audit(limit).await.unwrap().iter().map(|row| row.at).collect::<Vec<_>>();
        assert_eq!(times(10).await, [50, 30, 20, 10]);
        assert_eq!(db.audit(1).await.unwrap(), [row(50, "key-used")]);
        db.delete_old_audit(30).await.unwrap();
        assert_eq!(times(10).await, [50, 30]);
    }
}

#[tokio::test]
async fn a_turn_is_begun_grown_ended_and_read_back_whole() {
    for engine in ENGINES {
        let (db, _keep) = fresh_database(engine).await;
        let (writer, _) = Writer::start(db.clone());
        let me = user(&db, "a@x.org").await;
        let mut turn = begin(&db, &question(me, "chat", "p1", 1_000)).await;
        let exchange = db.exchange(me, "chat").await.unwrap().unwrap();
        assert_eq!((exchange.title.as_str(), exchange.turn_count, exchange.agent.as_str()), ("What is p1?", 1, "auto"));
        assert_eq!(db.exchange(me, &exchange.id.to_string()).await.unwrap().as_ref(), Some(&exchange), "by number too");

        grow(&writer, &mut turn, 1, "Ein Fluß ").await;
        grow(&writer, &mut turn, 1, "\u{1F30A}").await;
        flush(&writer).await;
        let mut stored = db.turn(me, &turn.id).await.unwrap().unwrap().turn;
        assert_eq!((stored.state_name(), stored.text().as_str()), ("running", ""));
        db.replay(&mut stored).await.unwrap();
        assert_eq!(stored, turn, "a running turn is its row and its events");
        assert_eq!(db.live_turn(exchange.id).await.unwrap(), Some(turn.id.clone()));

        let mut running = turn.clone();
        assert_eq!(end(&writer, &mut turn, 1, End::Answered, 2_000).await, Written::Stored);
        let stored = db.turn(me, &turn.id).await.unwrap().unwrap();
        assert_eq!((stored.turn.text(), stored.turn.state, stored.turn.seq), (turn.text(), turn.state, turn.seq));
        assert_eq!(stored.exchange, exchange.id);
        assert!(db.events(turn.row, 0).await.unwrap().is_empty(), "an ended turn needs no events");
        let after = db.exchange(me, "chat").await.unwrap().unwrap();
        assert_eq!((after.updated_at, after.agent.as_str()), (2_000, "router"));
        assert_eq!(end(&writer, &mut running, 1, End::Answered, 3_000).await, Written::Refused, "it ends once");
    }
}

/// Does what only somebody at the database can do.
async fn by_hand(db: &Db, statement: &'static str) {
    match db {
        Db::Sqlite { writer, .. } => drop(sqlx::query(statement).execute(writer).await.unwrap()),
        Db::Postgres(pool) => drop(sqlx::query(statement).execute(pool).await.unwrap()),
    }
}

#[tokio::test]
async fn a_bad_or_missing_event_costs_its_own_words_only() {
    for engine in ENGINES {
        let (db, _keep) = fresh_database(engine).await;
        let (writer, _) = Writer::start(db.clone());
        let me = user(&db, "a@x.org").await;
        let mut turn = begin(&db, &question(me, "chat", "p1", 1_000)).await;
        for word in ["one ", "two ", "three ", "four ", "five "] {
            grow(&writer, &mut turn, 1, word).await;
        }
        flush(&writer).await;
        by_hand(&db, "update turn_event set event = '{bad' where seq = 2").await;
        by_hand(&db, "delete from turn_event where seq = 4").await;
        let mut stored = db.turn(me, &turn.id).await.unwrap().unwrap().turn;
        db.replay(&mut stored).await.unwrap();
        assert_eq!((stored.text().as_str(), stored.seq), ("one three five ", 5));
        let (taken, _, _) = db.take_over(turn.row, 1, &lease("you", 9_000)).await.unwrap().unwrap();
        assert_eq!(taken.text(), "one three five ");
    }
}

#[tokio::test]
async fn a_row_that_cannot_be_read_hides_no_other() {
    let (db, _keep) = fresh_database(Engine::Sqlite).await;
    let (writer, _) = Writer::start(db.clone());
    let me = user(&db, "a@x.org").await;
    for (chat, prompt) in [("one", "p1"), ("two", "p1"), ("two", "p2"), ("three", "p1")] {
        let mut turn = begin(&db, &question(me, chat, prompt, 1_000)).await;
        end(&writer, &mut turn, 1, End::Answered, 2_000).await;
    }
    by_hand(&db, "update chat_exchange set title = x'ff' where uuid = 'one'").await;
    by_hand(&db, "update chat_exchange_message set message = x'fffe' where prompt_id = 'p2'").await;
    let names = |lines: &[app::model::exchange::ExchangeSummary]| lines.iter().map(|line| line.uuid.to_string()).collect::<Vec<_>>();
    assert_eq!(names(&db.history(me, None, 50).await.unwrap().lines), ["three", "two"]);
    assert_eq!(db.history_lines(me, None, 50).await.unwrap().history_lines().unwrap().len(), 3);
    let exchange = db.exchange(me, "two").await.unwrap().unwrap();
    assert_eq!(db.turns(exchange.id, None, 50).await.unwrap().0.len(), 1);
    assert_eq!(db.lines(me, "two").await.unwrap().lines().unwrap().len(), 2);
}

#[tokio::test]
async fn a_live_turn_that_cannot_be_read_is_given_up_and_blocks_nobody() {
    for engine in ENGINES {
        let (db, _keep) = fresh_database(engine).await;
        let me = user(&db, "a@x.org").await;
        let turn = begin(&db, &question(me, "chat", "p1", 1_000)).await;
        by_hand(&db, "update chat_exchange_message set uuid = 'not a uuid!'").await;
        assert!(db.take_over(turn.row, 1, &lease("you", 9_000)).await.unwrap().is_none());
        assert!(matches!(db.begin(&question(me, "chat", "p2", 2_000)).await.unwrap(), Begun::New(..)), "{engine:?}");
    }
}

#[tokio::test]
async fn one_conversation_has_at_most_one_live_turn_and_one_turn_for_a_prompt() {
    for engine in ENGINES {
        let (db, _keep) = fresh_database(engine).await;
        let (writer, _) = Writer::start(db.clone());
        let me = user(&db, "a@x.org").await;
        let mut first = begin(&db, &question(me, "chat", "p1", 1_000)).await;
        let busy = db.begin(&question(me, "chat", "p2", 1_001)).await.unwrap();
        assert!(matches!(busy, Begun::Busy(id) if id == first.id));
        let again = db.begin(&question(me, "chat", "p1", 1_002)).await.unwrap();
        assert!(matches!(again, Begun::Known(id) if id == first.id));
        let exchange = db.exchange(me, "chat").await.unwrap().unwrap();
        assert_eq!((exchange.turn_count, exchange.updated_at), (1, 1_000), "what is refused leaves nothing behind");
        end(&writer, &mut first, 1, End::Answered, 2_000).await;
        begin(&db, &question(me, "chat", "p2", 3_000)).await;

        let many = (0..8).map(|n| {
            let (db, new) = (db.clone(), question(me, "race", &format!("r{n}"), 4_000));
            tokio::spawn(async move { matches!(db.begin(&new).await, Ok(Begun::New(..))) })
        });
        let begun = futures::future::join_all(many).await.into_iter().filter(|begun| *begun.as_ref().unwrap()).count();
        assert_eq!(begun, 1, "eight at once on {engine:?}");
        let same = (0..8).map(|_| {
            let (db, new) = (db.clone(), question(me, "same", "s", 4_000));
            tokio::spawn(async move { matches!(db.begin(&new).await, Ok(Begun::New(..))) })
        });
        let begun = futures::future::join_all(same).await.into_iter().filter(|begun| *begun.as_ref().unwrap()).count();
        assert_eq!(begun, 1, "the same prompt eight times on {engine:?}");
    }
}

#[tokio::test]
async fn nobody_reads_or_changes_what_is_someone_elses() {
    for engine in ENGINES {
        let (db, _keep) = fresh_database(engine).await;
        let (me, other) = (user(&db, "a@x.org").await, user(&db, "b@x.org").await);
        let turn = begin(&db, &question(me, "chat", "p1", 1_000)).await;
        let uuid = ExchangeUuid::parse("chat").unwrap();
        assert!(db.exchange(other, "chat").await.unwrap().is_none());
        assert!(db.turn(other, &turn.id).await.unwrap().is_none());
        assert!(db.history(other, None, 50).await.unwrap().lines.is_empty());
        assert!(matches!(db.begin(&question(other, "chat", "p9", 1_000)).await.unwrap(), Begun::NotFound));
        assert!(matches!(db.begin_sibling(&retry(other, &turn.id, 1)).await.unwrap(), Begun::NotFound));
        assert!(db.shown_turn(other, &uuid, None).await.unwrap().is_none());
        assert!(db.shown_turn(other, &uuid, Some("p1")).await.unwrap().is_none());
        assert_eq!(db.lines(other, "chat").await.unwrap().lines().unwrap(), []);
        assert_eq!(db.history_lines(other, None, 50).await.unwrap().history_lines().unwrap(), []);
        assert!(!db.set_feedback(other, &turn.id, Some(&Feedback { good: true, reason: None })).await.unwrap());
        assert!(!db.delete_exchange(other, &uuid, 5).await.unwrap());
        assert!(db.clear_history(other, 5).await.unwrap().is_empty());
        assert!(db.deleted_live_turns(other).await.unwrap().is_empty());
        assert_eq!(db.known_turn(other, &uuid, &turn.prompt.id).await.unwrap(), None);
        assert_eq!(db.known_turn(me, &uuid, &turn.prompt.id).await.unwrap(), Some(turn.id.clone()));
        assert!(db.exchange(me, "chat").await.unwrap().is_some());
    }
}

#[tokio::test]
async fn a_retry_takes_the_place_of_the_latest_turn_and_loses_nothing() {
    for engine in ENGINES {
        let (db, _keep) = fresh_database(engine).await;
        let (writer, _) = Writer::start(db.clone());
        let me = user(&db, "a@x.org").await;
        let mut first = begin(&db, &question(me, "chat", "p1", 1_000)).await;
        end(&writer, &mut first, 1, End::Answered, 1_100).await;
        let mut second = begin(&db, &question(me, "chat", "p2", 2_000)).await;
        assert!(matches!(db.begin_sibling(&retry(me, &second.id, 2_050)).await.unwrap(), Begun::Busy(_)));
        grow(&writer, &mut second, 1, "half").await;
        end(&writer, &mut second, 1, End::Interrupted(Interruption::ByUser), 2_100).await;
        assert!(matches!(db.begin_sibling(&retry(me, &first.id, 3_000)).await.unwrap(), Begun::NotLatest));
        let Begun::New(mut third, exchange) = db.begin_sibling(&retry(me, &second.id, 3_000)).await.unwrap() else { panic!("not begun") };
        assert_eq!((third.attempt, &third.prompt), (2, &second.prompt));
        end(&writer, &mut third, 1, End::Answered, 3_100).await;
        let (turns, _) = db.turns(exchange, None, 50).await.unwrap();
        let ids: Vec<_> = turns.iter().map(|turn| turn.id.clone()).collect();
        assert_eq!(ids, [first.id.clone(), third.id.clone()]);
        assert_eq!(db.turn(me, &second.id).await.unwrap().unwrap().turn.text(), "half", "the first attempt stays stored");
        assert!(matches!(db.begin_sibling(&retry(me, &second.id, 4_000)).await.unwrap(), Begun::NotLatest));
        assert_eq!(db.exchange(me, "chat").await.unwrap().unwrap().turn_count, 2, "the count is of the active branch");
    }
}

#[tokio::test]
async fn another_answer_or_a_changed_question_makes_a_branch_and_loses_nothing() {
    for engine in ENGINES {
        let (db, _keep) = fresh_database(engine).await;
        let (writer, _) = Writer::start(db.clone());
        let me = user(&db, "a@x.org").await;
        let mut turns = Vec::new();
        for (now, prompt) in [(1_000, "p1"), (2_000, "p2"), (3_000, "p3")] {
            let mut turn = begin(&db, &question(me, "chat", prompt, now)).await;
            end(&writer, &mut turn, 1, End::Answered, 1_500).await;
            turns.push(turn);
        }
        let shown = async || {
            let lines = db.lines(me, "chat").await.unwrap();
            lines.lines().unwrap().into_iter().map(|line| line.uuid.into_owned()).collect::<Vec<_>>()
        };
        let changed = Sibling { text: Some("What else?".into()), latest_only: false, ..retry(me, &turns[1].id, 9_000) };
        let Begun::New(mut branch, exchange) = db.begin_sibling(&changed).await.unwrap() else { panic!("not begun") };
        assert_eq!((branch.attempt, branch.prompt.text.as_str(), branch.prompt.id.as_str()), (2, "What else?", "p2"));
        end(&writer, &mut branch, 1, End::Answered, 9_100).await;
        assert_eq!(shown().await, [turns[0].id.as_str(), branch.id.as_str()], "what came after it is not shown");
        assert_eq!(db.exchange(me, "chat").await.unwrap().unwrap().turn_count, 2);
        assert_eq!(db.turns(exchange, Some(branch.row), 50).await.unwrap().0.len(), 1, "the context is that of the branch");
        for turn in &turns {
            assert!(db.turn(me, &turn.id).await.unwrap().is_some(), "nothing is deleted");
        }
        let uuid = ExchangeUuid::parse("chat").unwrap();
        assert_eq!(db.shown_turn(me, &uuid, Some("p2")).await.unwrap(), Some(branch.id.clone()));
        assert_eq!(db.shown_turn(me, &uuid, Some(branch.id.as_str())).await.unwrap(), Some(branch.id.clone()));
        assert_eq!(db.shown_turn(me, &uuid, Some("p3")).await.unwrap(), None);
        assert_eq!(db.shown_turn(me, &uuid, None).await.unwrap(), Some(branch.id.clone()));
        let hidden = Sibling { latest_only: false, ..retry(me, &turns[2].id, 9_500) };
        assert!(matches!(db.begin_sibling(&hidden).await.unwrap(), Begun::NotShown));
        let again = Sibling { latest_only: false, ..retry(me, &turns[0].id, 9_600) };
        let Begun::New(root, _) = db.begin_sibling(&again).await.unwrap() else { panic!("not begun") };
        assert_eq!(shown().await, [root.id.as_str()], "a branch may begin at the root");
    }
}

#[tokio::test]
async fn the_history_for_programs_goes_on_where_it_left_off() {
    for engine in ENGINES {
        let (db, _keep) = fresh_database(engine).await;
        let me = user(&db, "a@x.org").await;
        for number in 0..5 {
            begin(&db, &question(me, &format!("chat{number}"), "p", 1_000)).await;
        }
        let joined = db.history_lines(me, None, 50).await.unwrap();
        let all = joined.history_lines().unwrap();
        let ids = |lines: &[app::ssr::db::lines::HistoryLine<'_>]| lines.iter().map(|line| line.exchange_id).collect::<Vec<_>>();
        assert_eq!(ids(&all).len(), 5);
        assert!(all.iter().all(|line| line.title == "What is p?" && line.turn_count == 1), "{all:?}");
        let third =
            app::model::exchange::HistoryCursor { updated_at: all[2].updated_at, id: app::model::ids::ExchangeId(all[2].exchange_id) };
        assert_eq!(
            ids(&db.history_lines(me, Some(third), 50).await.unwrap().history_lines().unwrap()),
            ids(&all)[3..],
            "equal times are told apart"
        );
        assert_eq!(ids(&db.history_lines(me, None, 2).await.unwrap().history_lines().unwrap()), ids(&all)[..2]);
    }
}

#[tokio::test]
async fn a_lost_turn_is_taken_over_once_and_its_old_writer_is_refused() {
    for engine in ENGINES {
        let (db, _keep) = fresh_database(engine).await;
        let (writer, _) = Writer::start(db.clone());
        let me = user(&db, "a@x.org").await;
        let mut turn = begin(&db, &question(me, "chat", "p1", 1_000)).await;
        grow(&writer, &mut turn, 1, "kept ").await;
        flush(&writer).await;
        assert_eq!(db.renew_leases(&lease("me", 5_000)).await.unwrap(), [turn.id.clone()]);
        assert!(db.lost_turns(5_000).await.unwrap().is_empty());
        assert_eq!(db.lost_turns(5_001).await.unwrap(), [(turn.row, 1)]);

        let (mut taken, _, epoch) = db.take_over(turn.row, 1, &lease("you", 9_000)).await.unwrap().unwrap();
        assert_eq!((taken.text().as_str(), epoch), ("kept ", 2));
        assert!(db.take_over(turn.row, 1, &lease("third", 9_000)).await.unwrap().is_none(), "only one takes it");
        grow(&writer, &mut turn, 1, "late").await;
        flush(&writer).await;
        assert_eq!(db.events(turn.row, 1).await.unwrap(), [], "a late append is refused");
        assert_eq!(end(&writer, &mut turn.clone(), 1, End::Answered, 6_000).await, Written::Refused);
        assert_eq!(end(&writer, &mut taken, epoch, End::Interrupted(Interruption::Lost), 6_000).await, Written::Stored);
        let stored = db.turn(me, &turn.id).await.unwrap().unwrap().turn;
        assert_eq!((stored.state_name(), stored.text().as_str()), ("interrupted", "kept "));
    }
}

#[tokio::test]
async fn a_tool_is_claimed_once_and_only_by_whoever_has_the_turn() {
    for engine in ENGINES {
        let (db, _keep) = fresh_database(engine).await;
        let (writer, _) = Writer::start(db.clone());
        let me = user(&db, "a@x.org").await;
        let turn = begin(&db, &question(me, "chat", "p1", 1_000)).await;
        let claim = |call: &str, epoch| Write { claims: vec![(call.to_owned(), "x".to_owned())], ..write(turn.row, epoch) };
        let claimed = async |call: &str, epoch| store(&writer, claim(call, epoch)).await.claimed;
        assert_eq!(claimed("a", 1).await, ["a"]);
        assert!(claimed("a", 1).await.is_empty(), "a call runs once");
        assert!(claimed("b", 2).await.is_empty(), "not with a wrong epoch");
        db.take_over(turn.row, 1, &lease("you", 9_000)).await.unwrap().unwrap();
        assert!(claimed("b", 1).await.is_empty(), "nor for whom it was taken from");
        assert_eq!(claimed("b", 2).await, ["b"]);
        assert!(claimed("a", 2).await.is_empty(), "nor after that");
    }
}

#[tokio::test]
async fn a_paused_turn_waits_in_its_row_and_goes_on_once() {
    for engine in ENGINES {
        let (db, _keep) = fresh_database(engine).await;
        let (writer, _) = Writer::start(db.clone());
        let me = user(&db, "a@x.org").await;
        let mut turn = begin(&db, &question(me, "chat", "p1", 1_000)).await;
        grow(&writer, &mut turn, 1, "May I?").await;
        happen(&writer, &mut turn, 1, TurnEvent::ToolCalled { call: "c".into(), name: "x".into() }).await;
        let asking = ToolState::Asking { input: serde_json::json!({}), runner: Runner::Server, approval: "q".into(), until: 7_000 };
        happen(&writer, &mut turn, 1, TurnEvent::ToolChanged { call: "c".into(), state: asking }).await;
        turn.apply(turn.seq + 1, &TurnEvent::Paused).unwrap();
        let paused = store(&writer, Write { end: Some(end_write(&turn, 2_000)), ..write(turn.row, 1) }).await;
        assert_eq!(paused.written, Written::Stored);
        let stored = db.turn(me, &turn.id).await.unwrap().unwrap();
        assert_eq!((&stored.turn, stored.lease_until), (&turn, 7_000));
        assert_eq!(db.events(turn.row, 0).await.unwrap(), [], "its row says all");
        assert_eq!(db.renew_leases(&lease("me", 9_000)).await.unwrap(), [], "nobody runs it");
        assert!(db.lost_turns(i64::MAX).await.unwrap().is_empty(), "and it is not lost");
        assert_eq!((db.late_turns(7_000).await.unwrap(), db.late_turns(7_001).await.unwrap()), (vec![], vec![(turn.id.clone(), me)]));
        assert_eq!(db.load_of(me, 0).await.unwrap().0, 0, "who waits, works not");

        let run =
            |epoch, seq| Advance { row: turn.row, epoch, runs: true, lease: lease("you", 9_000), events: vec![(seq, TurnEvent::Resumed)] };
        assert!(db.advance(&run(1, turn.seq + 1)).await.unwrap());
        assert!(!db.advance(&run(1, turn.seq + 1)).await.unwrap(), "of two who answer at once one is first");
        assert!(!db.advance(&run(2, turn.seq + 2)).await.unwrap(), "a running turn is not taken up");
        let mut stored = db.turn(me, &turn.id).await.unwrap().unwrap();
        db.replay(&mut stored.turn).await.unwrap();
        assert_eq!((stored.turn.state_name(), stored.epoch, stored.turn.seq), ("running", 2, turn.seq + 1));
    }
}

#[tokio::test]
async fn orders_for_a_turn_are_taken_once_in_their_order() {
    for engine in ENGINES {
        let (db, _keep) = fresh_database(engine).await;
        let me = user(&db, "a@x.org").await;
        let turn = begin(&db, &question(me, "chat", "p1", 1_000)).await;
        for body in ["1", "2", "3"] {
            db.give_order(turn.row, body, 1_000).await.unwrap();
        }
        assert_eq!(db.ordered("me").await.unwrap(), std::slice::from_ref(&turn.id));
        assert_eq!(db.take_orders(turn.row).await.unwrap(), ["1", "2", "3"]);
        assert!(db.take_orders(turn.row).await.unwrap().is_empty());
        db.give_order(turn.row, "late", 1_000).await.unwrap();
        db.forget_orders(1_001).await.unwrap();
        assert!(db.take_orders(turn.row).await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn what_is_allowed_in_a_conversation_is_its_owners_word() {
    for engine in ENGINES {
        let (db, _keep) = fresh_database(engine).await;
        let (me, other) = (user(&db, "a@x.org").await, user(&db, "b@x.org").await);
        begin(&db, &question(me, "chat", "p1", 1_000)).await;
        let exchange = db.exchange(me, "chat").await.unwrap().unwrap().id;
        db.grant(other, exchange, "foreign").await.unwrap();
        for _ in 0..2 {
            db.grant(me, exchange, "mine").await.unwrap();
        }
        assert_eq!(db.granted(exchange).await.unwrap(), ["mine"]);
        assert!(!db.rename(other, exchange, "stolen").await.unwrap());
        assert!(db.rename(me, exchange, "Named").await.unwrap());
        assert_eq!(db.exchange(me, "chat").await.unwrap().unwrap().title, "Named");
    }
}

#[tokio::test]
async fn history_and_turns_come_in_pages_in_a_fixed_order() {
    for engine in ENGINES {
        let (db, _keep) = fresh_database(engine).await;
        let (writer, _) = Writer::start(db.clone());
        let me = user(&db, "a@x.org").await;
        for n in 0..7 {
            // Two each share a time: the number tells them apart.
            let mut turn = begin(&db, &question(me, &format!("chat{n}"), "p", 1_000 + n / 2)).await;
            end(&writer, &mut turn, 1, End::Answered, 1_000 + n / 2).await;
        }
        let mut names = Vec::new();
        let mut cursor = None;
        loop {
            let page = db.history(me, cursor, 3).await.unwrap();
            names.extend(page.lines.iter().map(|line| line.uuid.to_string()));
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(names, ["chat6", "chat5", "chat4", "chat3", "chat2", "chat1", "chat0"]);

        for n in 0..5 {
            let mut turn = begin(&db, &question(me, "long", &format!("p{n}"), 2_000)).await;
            end(&writer, &mut turn, 1, End::Answered, 2_000).await;
        }
        let long = db.exchange(me, "long").await.unwrap().unwrap();
        let (last, earlier) = db.turns(long.id, None, 2).await.unwrap();
        let prompts = |turns: &[Turn]| turns.iter().map(|turn| turn.prompt.id.to_string()).collect::<Vec<_>>();
        assert_eq!((prompts(&last), earlier), (vec!["p3".to_owned(), "p4".to_owned()], true));
        let (rest, earlier) = db.turns(long.id, Some(last[0].row), 9).await.unwrap();
        assert_eq!((prompts(&rest).len(), earlier), (3, false));
    }
}

#[tokio::test]
async fn deleted_conversations_come_back_until_they_are_purged() {
    for engine in ENGINES {
        let (db, _keep) = fresh_database(engine).await;
        let (writer, _) = Writer::start(db.clone());
        let me = user(&db, "a@x.org").await;
        for name in ["one", "two"] {
            let mut turn = begin(&db, &question(me, name, "p", 1_000)).await;
            end(&writer, &mut turn, 1, End::Answered, 1_000).await;
        }
        let one = ExchangeUuid::parse("one").unwrap();
        assert!(db.delete_exchange(me, &one, 10).await.unwrap());
        assert!(!db.delete_exchange(me, &one, 11).await.unwrap());
        assert!(db.exchange(me, "one").await.unwrap().is_none());
        assert!(matches!(db.begin(&question(me, "one", "p2", 12)).await.unwrap(), Begun::NotFound), "its name is not free");
        assert_eq!(db.restore_deleted(me, 10).await.unwrap(), 1);
        assert_eq!(db.clear_history(me, 20).await.unwrap(), [1, 1]);
        assert_eq!(db.restore_deleted(me, 20).await.unwrap(), 2);
        db.clear_history(me, 30).await.unwrap();
        db.purge_deleted(30).await.unwrap();
        assert_eq!(db.restore_deleted(me, 30).await.unwrap(), 2, "not before its time");
        db.clear_history(me, 40).await.unwrap();
        db.purge_deleted(41).await.unwrap();
        assert_eq!(db.restore_deleted(me, 40).await.unwrap(), 0);
    }
}

#[tokio::test]
async fn feedback_belongs_to_a_turn_and_can_be_taken_back() {
    for engine in ENGINES {
        let (db, _keep) = fresh_database(engine).await;
        let me = user(&db, "a@x.org").await;
        let turn = begin(&db, &question(me, "chat", "p1", 1_000)).await;
        let bad = Feedback { good: false, reason: Some("wrong tool".into()) };
        assert!(db.set_feedback(me, &turn.id, Some(&bad)).await.unwrap());
        assert_eq!(db.turn(me, &turn.id).await.unwrap().unwrap().turn.feedback, Some(bad));
        assert!(db.set_feedback(me, &turn.id, None).await.unwrap());
        assert_eq!(db.turn(me, &turn.id).await.unwrap().unwrap().turn.feedback, None);
    }
}

#[tokio::test]
async fn a_damaged_row_is_shown_and_hides_no_other() {
    let (db, _keep) = fresh_database(Engine::Sqlite).await;
    let (writer, _) = Writer::start(db.clone());
    let me = user(&db, "a@x.org").await;
    for prompt in ["p1", "p2"] {
        let mut turn = begin(&db, &question(me, "chat", prompt, 1_000)).await;
        end(&writer, &mut turn, 1, End::Answered, 1_000).await;
    }
    let Db::Sqlite { writer: pool, .. } = &db else { unreachable!() };
    sqlx::query("update chat_exchange_message set message = 'plain text of old' where prompt_id = 'p1'").execute(pool).await.unwrap();
    let chat = db.exchange(me, "chat").await.unwrap().unwrap();
    let (turns, _) = db.turns(chat.id, None, 10).await.unwrap();
    assert_eq!((turns.len(), turns[0].text().as_str()), (2, "plain text of old"));
}

#[tokio::test]
async fn a_conversation_is_about_a_job_or_a_page_but_not_both() {
    let (db, _keep) = fresh_database(Engine::Sqlite).await;
    let me = user(&db, "a@x.org").await;
    let Db::Sqlite { writer, .. } = &db else { unreachable!() };
    let insert = "insert into chat_exchange (user_id, job_id, page_id, uuid, title, agent_type, created_at, updated_at) \
         values ($1, 1, 1, 'u', 't', 'auto', 1, 1)";
    assert!(sqlx::query(insert).bind(me.0).execute(writer).await.is_err());
}
