//! Leases: renews those of this process, and ends turns whose process is gone. No turn is ever left spinning.

use std::collections::HashSet;
use std::sync::Weak;
use std::time::Duration;

use super::{Command, Engine, Inner, clock};
use crate::model::error::AppError;
use crate::model::event::{End, Interruption, TurnEvent};
use crate::model::ids::{Millis, TurnId, TurnRow, UserId};
use crate::ssr::audit;

/// How long deleted conversations can be brought back by an operator before they are removed for good.
const BIN: Duration = Duration::from_hours(24);
/// How long an order waits for the process that runs its turn, in milliseconds.
const ORDERS_KEPT: Millis = 60 * 60 * 1000;

/// Works until the engine is gone.
pub(super) async fn run(inner: Weak<Inner>) {
    let mut orphans = HashSet::new();
    let mut swept_at = 0;
    loop {
        let Some(strong) = inner.upgrade() else { return };
        let engine = Engine { inner: strong };
        let pause = engine.inner.times.renew;
        if let Err(error) = engine.look_after(&mut orphans, &mut swept_at).await {
            tracing::warn!(%error, "looking after turns failed; trying again");
        }
        drop(engine);
        tokio::time::sleep(pause).await;
    }
}

impl Engine {
    async fn look_after(&self, orphans: &mut HashSet<TurnId>, swept_at: &mut Millis) -> Result<(), AppError> {
        self.renew(orphans).await?;
        self.end_lost(clock::now()).await?;
        self.expire_late().await?;
        self.take_orders().await?;
        let now = clock::now();
        if now - *swept_at > 10 * 60 * 1000 {
            *swept_at = now;
            self.inner.db.delete_expired_sessions(now).await?;
            self.inner.db.purge_deleted(now - i64::try_from(BIN.as_millis()).unwrap_or(0)).await?;
            self.inner.db.delete_old_audit(now - audit::KEPT).await?;
            self.inner.db.forget_orders(now - ORDERS_KEPT).await?;
        }
        Ok(())
    }

    /// Renews the leases of this process. A turn of ours that the store no longer gives us was taken over: its task ends. One that
    /// the store gives us twice in a row and that has no task here lost it: it is ended.
    async fn renew(&self, orphans: &mut HashSet<TurnId>) -> Result<(), AppError> {
        let running: Vec<TurnId> = self.inner.lives().iter().filter(|(_, entry)| entry.task.is_some()).map(|(id, _)| id.clone()).collect();
        let owned: HashSet<TurnId> = self.inner.db.renew_leases(&self.lease()).await?.into_iter().collect();
        // One that began after the list was made is not in it, and one that pauses just now is not owned: only what is missing and still
        // there the next time was taken over.
        for id in running.iter().filter(|id| !owned.contains(*id)) {
            if orphans.contains(id)
                && let Some(task) = self.inner.task(id)
            {
                let _ = task.send(Command::Leave);
            }
        }
        let missing = running.into_iter().filter(|id| !owned.contains(id));
        let mut unknown: HashSet<TurnId> = missing.collect();
        let without_task: Vec<&TurnId> = owned.iter().filter(|id| self.inner.task(id).is_none()).collect();
        if without_task.iter().any(|id| orphans.contains(*id)) {
            let lost = self.inner.db.lost_turns(Millis::MAX).await?;
            tracing::error!(count = lost.len(), "turns without a task");
            for (row, epoch) in lost {
                self.end_orphan(row, epoch, orphans).await?;
            }
        }
        unknown.extend(without_task.into_iter().cloned());
        *orphans = unknown;
        Ok(())
    }

    /// Gives up what nobody answered in time.
    async fn expire_late(&self) -> Result<(), AppError> {
        for (id, user) in self.inner.db.late_turns(clock::now()).await? {
            self.expire(user, &id).await?;
        }
        Ok(())
    }

    /// Takes the orders whose notice was missed.
    async fn take_orders(&self) -> Result<(), AppError> {
        if !self.inner.db.is_private() {
            for id in self.inner.db.ordered(&self.inner.owner).await? {
                let row = self.inner.lives().get(&id).map(|entry| entry.live.row);
                if let Some(row) = row {
                    self.look_for_orders(row).await;
                }
            }
        }
        Ok(())
    }

    async fn end_orphan(&self, row: TurnRow, epoch: i64, orphans: &HashSet<TurnId>) -> Result<(), AppError> {
        let running_here = self.inner.lives().values().any(|entry| entry.task.is_some() && entry.live.row == row);
        if running_here || orphans.is_empty() {
            return Ok(());
        }
        self.end_as_lost(row, epoch).await
    }

    /// Ends every running turn whose lease ran out before `then`.
    pub(super) async fn end_lost(&self, then: Millis) -> Result<(), AppError> {
        for (row, epoch) in self.inner.db.lost_turns(then).await? {
            self.end_as_lost(row, epoch).await?;
        }
        Ok(())
    }

    /// Ends a turn if it is live, runs nowhere that renews it, and its lease ran out; says whether it did.
    pub(super) async fn end_if_lost(&self, user: UserId, id: &TurnId) -> Result<bool, AppError> {
        if self.inner.live(user, id).is_some() {
            return Ok(false);
        }
        let Some(stored) = self.inner.db.turn(user, id).await? else { return Ok(false) };
        if stored.turn.is_ended() || stored.lease_until >= clock::now() {
            return Ok(false);
        }
        self.end_as_lost(stored.turn.row, stored.epoch).await?;
        Ok(true)
    }

    /// Takes the turn over, so that a stalled writer is refused, and stores it as interrupted with every word that was stored.
    async fn end_as_lost(&self, row: TurnRow, epoch: i64) -> Result<(), AppError> {
        let Some((mut turn, carried, epoch)) = self.inner.db.take_over(row, epoch, &self.lease()).await? else { return Ok(()) };
        let how = End::Interrupted(Interruption::Lost);
        if turn.apply(turn.seq + 1, &TurnEvent::Ended { at: clock::now(), how, finish: None }).is_err() {
            return Ok(());
        }
        tracing::warn!(turn = %turn.id, "a turn was interrupted: its process is gone");
        // Whatever became of it, the next look finds it again if it is still live.
        self.store_end(&turn, epoch, carried).await;
        self.inner.bells.ring(row);
        Ok(())
    }
}
