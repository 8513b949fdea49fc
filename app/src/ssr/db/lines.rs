//! Conversations for programs: rows read no further than programs need, all in one answer of the database.
//!
//! A row at a time costs more than what is in it: each goes through SQLite's own thread, with a copy of every column. So the rows are
//! joined into one text by the database. Texts in it are preceded by their length in bytes, so whatever they hold cannot be taken for
//! the next field.

use super::{Db, on_reader};
use crate::model::error::AppError;
use crate::model::exchange::HistoryCursor;
use crate::model::ids::{Millis, UserId};

const BY_UUID: &str = "select string_agg(octet_length(m.uuid) || ' ' || m.uuid || m.create_time || ' ' || \
     octet_length(m.message) || ' ' || m.message || coalesce(m.feedback, -1) || ' ' || octet_length(m.state) || ' ' || m.state, \
     '' order by m.id) from chat_exchange e join chat_exchange_message m on m.chat_exchange_id = e.id and m.active = 1 \
     where e.uuid = $1 and e.user_id = $2 and e.deleted_at is null";
const BY_ID: &str = "select string_agg(octet_length(m.uuid) || ' ' || m.uuid || m.create_time || ' ' || \
     octet_length(m.message) || ' ' || m.message || coalesce(m.feedback, -1) || ' ' || octet_length(m.state) || ' ' || m.state, \
     '' order by m.id) from chat_exchange e join chat_exchange_message m on m.chat_exchange_id = e.id and m.active = 1 \
     where e.id = $1 and e.user_id = $2 and e.deleted_at is null";
const HISTORY: &str = "select string_agg(octet_length(h.uuid) || ' ' || h.uuid || h.create_time || ' ' || \
     octet_length(h.message) || ' ' || h.message || coalesce(h.feedback, -1) || ' ' || octet_length(h.state) || ' ' || h.state || \
     h.exchange_id || ' ' || octet_length(h.title) || ' ' || h.title || h.updated_at || ' ' || h.turn_count || ' ', \
     '' order by h.updated_at desc, h.exchange_id desc) from \
     (select m.uuid, m.create_time, m.message, m.feedback, m.state, e.id as exchange_id, e.title, e.updated_at, e.turn_count \
     from chat_exchange e join chat_exchange_message m on m.id = \
     (select min(x.id) from chat_exchange_message x where x.chat_exchange_id = e.id and x.active = 1) \
     where e.user_id = $1 and e.deleted_at is null and e.job_id is null and e.page_id is null and (e.updated_at, e.id) < ($3, $4) \
     order by e.updated_at desc, e.id desc limit $2) as h";

pub(super) const ALL: &[&str] = &[BY_UUID, BY_ID, HISTORY];

/// A turn for programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Name of the turn.
    pub uuid: String,
    /// When it was asked.
    pub create_time: Millis,
    /// The stored message, see [`super::message::Brief`].
    pub message: String,
    /// 1: good, 0: not.
    pub feedback: Option<i64>,
    /// `running`, `paused`, `answered`, `failed` or `interrupted`.
    pub state: String,
}

/// A conversation for programs, with its first turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryLine {
    /// The first turn.
    pub first: Line,
    /// Row of the conversation.
    pub exchange_id: i64,
    /// Its title.
    pub title: String,
    /// Last activity.
    pub updated_at: Millis,
    /// Turns on the active branch.
    pub turn_count: i64,
}

/// What is left of the joined rows.
struct Joined<'a>(&'a str);

impl Joined<'_> {
    /// A number and the space behind it.
    fn number(&mut self) -> Option<i64> {
        let (number, rest) = self.0.split_once(' ')?;
        self.0 = rest;
        number.parse().ok()
    }

    /// A text behind its length.
    fn text(&mut self) -> Option<String> {
        let length = usize::try_from(self.number()?).ok()?;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(text.to_owned())
    }

    fn line(&mut self) -> Option<Line> {
        let (uuid, create_time, message) = (self.text()?, self.number()?, self.text()?);
        let feedback = Some(self.number()?).filter(|feedback| *feedback >= 0);
        Some(Line { uuid, create_time, message, feedback, state: self.text()? })
    }

    fn history_line(&mut self) -> Option<HistoryLine> {
        Some(HistoryLine {
            first: self.line()?,
            exchange_id: self.number()?,
            title: self.text()?,
            updated_at: self.number()?,
            turn_count: self.number()?,
        })
    }
}

/// Takes the joined rows apart again.
fn rows<T>(joined: Option<&str>, row: impl Fn(&mut Joined<'_>) -> Option<T>) -> Result<Vec<T>, sqlx::Error> {
    let mut joined = Joined(joined.unwrap_or_default());
    let mut rows = Vec::new();
    while !joined.0.is_empty() {
        rows.push(row(&mut joined).ok_or_else(|| sqlx::Error::Protocol("the joined rows cannot be told apart".into()))?);
    }
    Ok(rows)
}

impl Db {
    /// A person's latest general conversations before `before`, each with its first turn.
    pub async fn history_lines(&self, user: UserId, before: Option<HistoryCursor>, limit: usize) -> Result<Vec<HistoryLine>, AppError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let (time, id) = before.map_or((i64::MAX, i64::MAX), |cursor| (cursor.updated_at, cursor.id.0));
        let joined: Option<String> = on_reader!(self, db =>
            sqlx::query_scalar(HISTORY).bind(user.0).bind(limit).bind(time).bind(id).fetch_one(db).await?);
        Ok(rows(joined.as_deref(), Joined::history_line)?)
    }

    /// The turns of a person's own conversation, by its uuid or its number, oldest first; empty when there is none such.
    pub async fn lines(&self, user: UserId, name: &str) -> Result<Vec<Line>, AppError> {
        let joined: Option<String> = match name.parse::<i64>() {
            Ok(id) => on_reader!(self, db => sqlx::query_scalar(BY_ID).bind(id).bind(user.0).fetch_one(db).await?),
            Err(_) => on_reader!(self, db => sqlx::query_scalar(BY_UUID).bind(name).bind(user.0).fetch_one(db).await?),
        };
        Ok(rows(joined.as_deref(), Joined::line)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_may_hold_anything() {
        let joined = "4 é 17 2 {}-1 8 answered1 b5 6 5 1 x10 4 lost";
        let line = |uuid: &str, create_time, message: &str, feedback, state: &str| Line {
            uuid: uuid.into(),
            create_time,
            message: message.into(),
            feedback,
            state: state.into(),
        };
        let read = rows(Some(joined), Joined::line).unwrap();
        assert_eq!(read, [line("é 1", 7, "{}", None, "answered"), line("b", 5, "5 1 x1", Some(0), "lost")]);
        assert_eq!(rows(None, Joined::line).unwrap(), []);
    }

    #[test]
    fn a_length_that_does_not_fit_is_an_error() {
        for joined in ["9 a", "x", "1 é", "-1 a", "1 a5 2 {}-1 8 answere"] {
            assert!(rows(Some(joined), Joined::line).is_err(), "{joined}");
        }
    }
}
