//! How a simulated node coordinates: what `crate::node::coordinate` does.

use super::super::{Action, Coordinator, Event, Keeper, KeeperAction, LogEvent, Patience, Renewal};
use super::node::{Coordinating, Life, SimNode};
use super::world::{LEASE_MS, News, Op, Outcome, Record, Value, What, World};

const COORDINATOR_LEASE_MS: u64 = LEASE_MS / 3;

impl SimNode {
    pub(super) fn coordinate(&mut self, life: &mut Life, world: &mut World) {
        let now_ms = self.clock(world);
        let state = &mut life.coordinating;
        let Some((_, holds_ms, ..)) = &state.machine else {
            self.run_for_coordinator(life, world);
            self.trim(false, world);
            return;
        };
        if now_ms >= *holds_ms {
            *state = Coordinating::default();
            return;
        }
        self.trim(true, world);
        let state = &mut life.coordinating;
        let Some((keeper, _, machine, heard)) = &mut state.machine else {
            return;
        };
        let mut events = vec![Event::Tick];
        events.extend(state.done.drain(..).map(Event::Done));
        if world.now_ms >= self.cut_off_until_ms {
            let end = world.news.len();
            events.extend(world.news[*heard..end].iter().filter_map(event));
            if *heard == 0 {
                events.push(Event::CaughtUp);
            }
            *heard = end;
        }
        let mut actions = Vec::new();
        for event in events {
            actions.extend(machine.handle(event, now_ms));
        }
        if let Some(KeeperAction::Renew { revision }) = keeper.tick(now_ms) {
            let value = Some(Value::Coordinator {
                session: self.session,
                renewed: state.renewed,
            });
            let op = Op::Swap {
                key: "coordinator".to_owned(),
                value,
                revision,
            };
            state.renewing = Some(world.send(
                self.number,
                self.session,
                op,
                world.now_ms < self.cut_off_until_ms,
            ));
        }
        for action in actions {
            let op = self.op(&action, world);
            match op {
                Some(op) => {
                    let request = self.send(world, op);
                    life.coordinating.doing.insert(request, action);
                }
                None => life.coordinating.done.push(action),
            }
        }
    }

    fn run_for_coordinator(&self, life: &mut Life, world: &mut World) {
        let now_ms = self.clock(world);
        let state = &mut life.coordinating;
        if state.taking.is_some() || self.cut_off(world) || now_ms >= life.until_ms {
            return;
        }
        let (revision, value) = world.keys.get("coordinator").cloned().unwrap_or_default();
        if state.watched.0 != revision || state.watched.1 == 0 {
            state.watched = (revision, now_ms);
        }
        let patience = Patience::of(COORDINATOR_LEASE_MS);
        if value.is_none() || now_ms > state.watched.1 + patience.lease_ms + patience.margin_ms {
            let value = Some(Value::Coordinator {
                session: self.session,
                renewed: world.next(),
            });
            let op = Op::Swap {
                key: "coordinator".to_owned(),
                value,
                revision,
            };
            state.taking = Some((self.send(world, op), now_ms));
        }
    }

    fn op(&self, action: &Action, world: &mut World) -> Option<Op> {
        Some(match action.clone() {
            Action::Assign {
                revision,
                assignment,
            } => Op::Swap {
                key: "assignment".to_owned(),
                value: Some(Value::Assignment(assignment)),
                revision,
            },
            Action::Command { revision, control } => Op::Swap {
                key: "control".to_owned(),
                value: Some(Value::Control(control)),
                revision,
            },
            Action::Kill { node, revision } => Op::Swap {
                key: format!("lease.{node}"),
                value: None,
                revision,
            },
            Action::Seal { holder } => {
                let lease = world.keys.get(&format!("lease.{}", holder.node));
                let expected = world.last_of(&holder.node);
                let last = world.log.get(expected.checked_sub(1)? as usize)?;
                let sealed = matches!(last.what, What::Event(LogEvent::Sealed { .. }));
                if lease.is_some_and(|(_, lease)| lease.is_some())
                    || sealed
                    || last.incarnation != holder.incarnation
                {
                    return None;
                }
                let incarnation = holder.incarnation;
                let what = What::Event(LogEvent::Sealed { incarnation });
                let record = Record {
                    node: holder.node,
                    incarnation,
                    session: 0,
                    id: world.next(),
                    what,
                };
                Op::Append { record, expected }
            }
            // These nodes are no group.
            Action::Answer(_) => return None,
        })
    }
}

pub(super) fn coordinated(
    state: &mut Coordinating,
    request: u64,
    outcome: Outcome,
    renewal: Renewal,
    now_ms: u64,
) {
    if let Some((_, sent_ms)) = state.taking.filter(|(taking, _)| *taking == request) {
        state.taking = None;
        if let Outcome::Done(revision) = outcome {
            let keeper = Keeper::new(COORDINATOR_LEASE_MS, revision, sent_ms);
            let holds_ms = keeper.first_deadline_ms();
            let machine = Coordinator::new(Patience::of(LEASE_MS), now_ms);
            state.machine = Some((keeper, holds_ms, machine, 0));
        }
        return;
    }
    let Some((keeper, holds_ms, ..)) = &mut state.machine else {
        return;
    };
    if state.renewing == Some(request) {
        state.renewing = None;
        state.renewed += u64::from(matches!(outcome, Outcome::Done(_)));
        match keeper.renewed(renewal, now_ms) {
            Some(KeeperAction::Holds { until_ms }) => *holds_ms = until_ms,
            Some(KeeperAction::Lost) => *state = Coordinating::default(),
            _ => {}
        }
        return;
    }
    // What it actually wrote is among the news.
    state.done.extend(state.doing.remove(&request));
}

fn event(news: &News) -> Option<Event> {
    Some(match news.clone() {
        News::Key {
            key,
            revision,
            value,
        } => match (key.as_str(), value) {
            (_, Some(Value::Assignment(assignment))) => Event::Assignment {
                revision,
                assignment,
            },
            (_, Some(Value::Control(control))) => Event::Control { revision, control },
            (_, Some(Value::Coordinator { .. } | Value::Summary(_))) | ("coordinator", None) => {
                return None;
            }
            (key, value) => {
                let node = key.strip_prefix("lease.")?.to_owned();
                let lease = value.and_then(|value| match value {
                    Value::Lease(lease) => Some(lease),
                    _ => None,
                });
                Event::Lease {
                    node,
                    revision,
                    lease,
                }
            }
        },
        News::Log { seq, record } => {
            let event = match record.what {
                What::Event(event) => event,
                What::Commit { .. } | What::Checkpoint(_) => LogEvent::Other,
            };
            Event::Log {
                seq,
                node: record.node,
                event,
            }
        }
        News::Reported { node, reported } => Event::Reported { node, reported },
    })
}
