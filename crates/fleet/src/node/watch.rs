//! Reads what is decided, and tells the node what follows from it for it.

use super::Inner;
use crate::nats::{Followed, Follower, Kv};
use crate::protocol::{Assignment, Control, Duties};
use crate::status::Wish;
use crate::{Instruction, boottime_ms, names};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What has been seen so far.
struct Seen {
    duties: Duties,
    wish: Wish,
    /// Had no partition ever had an owner when the assignment was last read?
    unbegun: bool,
}

impl Inner {
    pub(super) async fn watch_orders(self: Arc<Self>) {
        let main = self.fleet.main();
        let filters = [names::ASSIGNMENT, names::CONTROL].map(|key| main.subject(key));
        let stream = Kv::stream_name(&self.fleet.bus().names.bucket());
        let mut follower = Follower::new(&self.fleet.bus().js, stream, filters.to_vec(), 1, 16);
        let mut seen = Seen {
            duties: Duties::new(self.me.clone(), self.joined),
            wish: Wish::Run,
            unbegun: false,
        };
        loop {
            let Followed {
                subject,
                value: Some(json),
                ..
            } = follower.next().await
            else {
                continue;
            };
            let orders = match names::last_token(&subject) {
                names::ASSIGNMENT => self.read_assignment(&json, &mut seen),
                _ => self.read_control(&json, &mut seen),
            };
            for order in orders {
                if let Instruction::Fenced(why) = &order {
                    self.fence(why).await;
                    return;
                }
                if self.orders.send(order).await.is_err() {
                    return;
                }
            }
        }
    }

    fn read_assignment(&self, json: &[u8], seen: &mut Seen) -> Vec<Instruction> {
        let assignment: Assignment = match serde_json::from_slice(json) {
            Ok(assignment) => assignment,
            Err(error) => {
                tracing::error!(%error, "the assignment cannot be read");
                return Vec::new();
            }
        };
        let now_ms = boottime_ms();
        // Nobody can have asked for an address before the first partition had an owner, which this node has seen or not.
        let first = seen.unbegun;
        seen.unbegun = assignment.shares.iter().all(|share| share.epoch == 0);
        let since_ms = if first || seen.unbegun { 0 } else { now_ms };
        let members = assignment.members.iter().map(|holder| holder.node.clone());
        self.homes()
            .set_members(members.collect(), since_ms, now_ms);
        seen.duties.read(&assignment)
    }

    fn read_control(&self, json: &[u8], seen: &mut Seen) -> Vec<Instruction> {
        let Ok(control) = serde_json::from_slice::<Control>(json) else {
            tracing::error!("the control key cannot be read");
            return Vec::new();
        };
        self.quiet.store(control.quiet, Ordering::Relaxed);
        self.look.store(control.look, Ordering::Release);
        let before = std::mem::replace(&mut seen.wish, control.wish);
        let order = match (before, control.wish) {
            (before, now) if before == now => None,
            (_, Wish::Stop) => Some(Instruction::Stop),
            (_, Wish::Run) => Some(Instruction::GoOn),
            (_, Wish::End) => Some(Instruction::End { complete: false }),
            (_, Wish::Complete) => Some(Instruction::End { complete: true }),
        };
        order.into_iter().collect()
    }
}
