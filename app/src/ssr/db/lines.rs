//! Conversations for programs: rows read no further than programs need, all in one answer of the database.
//!
//! A row at a time costs more than what is in it: each goes through SQLite's own thread, with a copy of every column. So the rows are
//! joined into one text by the database. Texts in it are preceded by their length in bytes, so whatever they hold cannot be taken for
//! the next field.

use std::borrow::Cow;
use std::cmp::Reverse;

use sqlx::{ColumnIndex, Decode, Row};

use super::{Db, on_reader};
use crate::model::error::AppError;
use crate::model::exchange::HistoryCursor;
use crate::model::ids::{Millis, UserId};

// Not ordered by the database: that would copy each row once more.
const BY_UUID: &str = "select string_agg(concat(m.id, ' ', octet_length(m.uuid), ' ', m.uuid, m.create_time, ' ', \
     octet_length(m.message), ' ', m.message, coalesce(m.feedback, -1), ' ', octet_length(m.state), ' ', m.state), '') \
     from chat_exchange e join chat_exchange_message m on m.chat_exchange_id = e.id and m.active = 1 \
     where e.uuid = $1 and e.user_id = $2 and e.deleted_at is null";
const BY_ID: &str = "select string_agg(concat(m.id, ' ', octet_length(m.uuid), ' ', m.uuid, m.create_time, ' ', \
     octet_length(m.message), ' ', m.message, coalesce(m.feedback, -1), ' ', octet_length(m.state), ' ', m.state), '') \
     from chat_exchange e join chat_exchange_message m on m.chat_exchange_id = e.id and m.active = 1 \
     where e.id = $1 and e.user_id = $2 and e.deleted_at is null";
const HISTORY: &str = "select string_agg(concat(m.id, ' ', octet_length(m.uuid), ' ', m.uuid, m.create_time, ' ', \
     octet_length(m.message), ' ', m.message, coalesce(m.feedback, -1), ' ', octet_length(m.state), ' ', m.state, \
     e.id, ' ', octet_length(e.title), ' ', e.title, e.updated_at, ' ', e.turn_count, ' '), '') from \
     (select id, title, updated_at, turn_count from chat_exchange \
     where user_id = $1 and deleted_at is null and job_id is null and page_id is null and (updated_at, id) < ($3, $4) \
     order by updated_at desc, id desc limit $2) as e join chat_exchange_message m on m.id = \
     (select min(x.id) from chat_exchange_message x where x.chat_exchange_id = e.id and x.active = 1)";

pub(super) const ALL: &[&str] = &[BY_UUID, BY_ID, HISTORY];

/// The rows of an answer of the database, joined; they are read where they lie.
#[derive(Debug)]
pub struct Joined(Vec<u8>);

/// A turn for programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// Row of the turn.
    pub id: i64,
    /// Name of the turn.
    pub uuid: Cow<'a, str>,
    /// When it was asked.
    pub create_time: Millis,
    /// The stored message, see [`super::message::Brief`].
    pub message: Cow<'a, str>,
    /// 1: good, 0: not.
    pub feedback: Option<i64>,
    /// `running`, `paused`, `answered`, `failed` or `interrupted`.
    pub state: Cow<'a, str>,
}

/// A conversation for programs, with its first turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryLine<'a> {
    /// The first turn.
    pub first: Line<'a>,
    /// Row of the conversation.
    pub exchange_id: i64,
    /// Its title.
    pub title: Cow<'a, str>,
    /// Last activity.
    pub updated_at: Millis,
    /// Turns on the active branch.
    pub turn_count: i64,
}

/// What is left of the joined rows.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    /// A number and the space behind it.
    fn number(&mut self) -> Option<i64> {
        let end = self.0.iter().position(|byte| *byte == b' ')?;
        let (number, rest) = (&self.0[..end], &self.0[end + 1..]);
        self.0 = rest;
        std::str::from_utf8(number).ok()?.parse().ok()
    }

    /// A text behind its length. SQLite takes any bytes for text; what is none is shown as far as it is.
    fn text(&mut self) -> Option<Cow<'a, str>> {
        let length = usize::try_from(self.number()?).ok()?;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        // Looking for what is wrong is several times slower than seeing that nothing is.
        Some(std::str::from_utf8(text).map_or_else(|_| String::from_utf8_lossy(text), Cow::Borrowed))
    }

    fn line(&mut self) -> Option<Line<'a>> {
        let (id, uuid, create_time, message) = (self.number()?, self.text()?, self.number()?, self.text()?);
        let feedback = Some(self.number()?).filter(|feedback| *feedback >= 0);
        Some(Line { id, uuid, create_time, message, feedback, state: self.text()? })
    }

    fn history_line(&mut self) -> Option<HistoryLine<'a>> {
        Some(HistoryLine {
            first: self.line()?,
            exchange_id: self.number()?,
            title: self.text()?,
            updated_at: self.number()?,
            turn_count: self.number()?,
        })
    }

    /// Takes the rows apart again.
    fn rows<T>(mut self, row: impl Fn(&mut Self) -> Option<T>) -> Result<Vec<T>, sqlx::Error> {
        let mut rows = Vec::new();
        while !self.0.is_empty() {
            rows.push(row(&mut self).ok_or_else(|| sqlx::Error::Protocol("the joined rows cannot be told apart".into()))?);
        }
        Ok(rows)
    }
}

impl Joined {
    /// The turns of a conversation, oldest first; of [`Db::lines`].
    pub fn lines(&self) -> Result<Vec<Line<'_>>, AppError> {
        let mut lines = Rest(&self.0).rows(Rest::line)?;
        lines.sort_unstable_by_key(|line| line.id);
        Ok(lines)
    }

    /// The conversations, latest activity first; of [`Db::history_lines`].
    pub fn history_lines(&self) -> Result<Vec<HistoryLine<'_>>, AppError> {
        let mut lines = Rest(&self.0).rows(Rest::history_line)?;
        lines.sort_unstable_by_key(|line| Reverse((line.updated_at, line.exchange_id)));
        Ok(lines)
    }
}

/// The one value of a row, as the bytes it is.
fn joined<'r, R: Row>(row: &'r R) -> Result<Joined, sqlx::Error>
where
    usize: ColumnIndex<R>,
    Vec<u8>: Decode<'r, R::Database>,
{
    Ok(Joined(row.try_get_unchecked::<Option<Vec<u8>>, _>(0)?.unwrap_or_default()))
}

impl Db {
    /// A person's latest general conversations before `before`, each with its first turn.
    pub async fn history_lines(&self, user: UserId, before: Option<HistoryCursor>, limit: usize) -> Result<Joined, AppError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let (time, id) = before.map_or((i64::MAX, i64::MAX), |cursor| (cursor.updated_at, cursor.id.0));
        Ok(on_reader!(self, db =>
            joined(&sqlx::query(HISTORY).bind(user.0).bind(limit).bind(time).bind(id).fetch_one(db).await?)?))
    }

    /// The turns of a person's own conversation, by its uuid or its number; none when there is none such.
    pub async fn lines(&self, user: UserId, name: &str) -> Result<Joined, AppError> {
        Ok(match name.parse::<i64>() {
            Ok(id) => on_reader!(self, db => joined(&sqlx::query(BY_ID).bind(id).bind(user.0).fetch_one(db).await?)?),
            Err(_) => on_reader!(self, db => joined(&sqlx::query(BY_UUID).bind(name).bind(user.0).fetch_one(db).await?)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(
        id: i64,
        uuid: &'static str,
        create_time: Millis,
        message: &'static str,
        feedback: Option<i64>,
        state: &'static str,
    ) -> Line<'static> {
        Line { id, uuid: uuid.into(), create_time, message: message.into(), feedback, state: state.into() }
    }

    #[test]
    fn a_text_may_hold_anything() {
        let joined = Joined("2 4 é 17 2 {}-1 8 answered1 1 b5 6 5 1 x10 4 lost".into());
        assert_eq!(joined.lines().unwrap(), [line(1, "b", 5, "5 1 x1", Some(0), "lost"), line(2, "é 1", 7, "{}", None, "answered")]);
        assert_eq!(Joined(Vec::new()).lines().unwrap(), []);
        let joined = Joined(b"1 1 a5 2 \xff\xfe-1 4 lost".to_vec());
        assert_eq!(joined.lines().unwrap(), [line(1, "a", 5, "\u{fffd}\u{fffd}", None, "lost")]);
    }

    #[test]
    fn a_length_that_does_not_fit_is_an_error() {
        for joined in ["1 9 a", "x", "1 -1 a", "1 1 a5 2 {}-1 8 answere"] {
            assert!(Joined(joined.into()).lines().is_err(), "{joined}");
        }
    }
}
