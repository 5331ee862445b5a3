//! Which node gets which partition: by what partitions weigh and what nodes can carry, with few moves, and never one
//! that would move back.

use super::assignment::{Assignment, Holder, Moving, Share};
use std::collections::{BTreeMap, BTreeSet};

/// A node is not relieved before it carries more than its share by this part of it.
const SLACK: f64 = 0.2;

/// What one partition is of the whole, by bytes and by requests. Both sum up to 1 over all partitions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Weight {
    pub(super) bytes: f64,
    pub(super) requests: f64,
}

/// Weighs partitions half by what is measured, half evenly: figures of a crawl's first minutes say little. `None` weighs nothing.
pub(super) fn weights(measured: &[Option<(f64, f64)>]) -> Vec<Weight> {
    let count = measured.iter().flatten().count().max(1) as f64;
    let sum = |of: fn(&(f64, f64)) -> f64| {
        measured
            .iter()
            .flatten()
            .map(of)
            .filter(|value| value.is_finite())
            .sum::<f64>()
    };
    let (all_bytes, all_requests) = (sum(|m| m.0), sum(|m| m.1));
    let part = |value: f64, all: f64| match all > 0.0 && value.is_finite() {
        true => 0.5 / count + 0.5 * value.max(0.0) / all,
        false => 1.0 / count,
    };
    let weight = |measured: &Option<(f64, f64)>| match *measured {
        Some((bytes, requests)) => Weight {
            bytes: part(bytes, all_bytes),
            requests: part(requests, all_requests),
        },
        None => Weight {
            bytes: 0.0,
            requests: 0.0,
        },
    };
    measured.iter().map(weight).collect()
}

/// What each node carries, as partitions will be once all moves that are under way are done.
pub(super) struct Loads<'a> {
    weights: &'a [Weight],
    nodes: BTreeMap<Holder, Load>,
}

#[derive(Clone, Copy, Default)]
struct Load {
    capacity: f64,
    bytes: f64,
    requests: f64,
}

impl Load {
    fn of(self) -> f64 {
        self.bytes.max(self.requests) / self.capacity
    }

    fn with(mut self, weight: Weight, sign: f64) -> Self {
        self.bytes += sign * weight.bytes;
        self.requests += sign * weight.requests;
        self
    }
}

impl<'a> Loads<'a> {
    /// `targets` are the nodes that may get partitions, with what they can carry.
    pub(super) fn new(
        assignment: &Assignment,
        targets: &BTreeMap<Holder, f64>,
        weights: &'a [Weight],
    ) -> Self {
        let load = |(holder, &capacity): (&Holder, &f64)| {
            let capacity = if capacity.is_finite() {
                capacity.clamp(0.01, 100.0)
            } else {
                1.0
            };
            (
                holder.clone(),
                Load {
                    capacity,
                    ..Load::default()
                },
            )
        };
        let mut loads = Self {
            weights,
            nodes: targets.iter().map(load).collect(),
        };
        for (partition, share) in assignment.shares.iter().enumerate() {
            if let Some(holder) = will_hold(share) {
                loads.add(holder, partition, 1.0);
            }
        }
        loads
    }

    fn add(&mut self, holder: &Holder, partition: usize, sign: f64) {
        if let Some(load) = self.nodes.get_mut(holder) {
            *load = load.with(self.weights[partition], sign);
        }
    }

    /// The node that carries least with one more partition.
    fn lightest(&self, partition: usize) -> Option<Holder> {
        let with = |load: &Load| load.with(self.weights[partition], 1.0).of();
        let lightest = self
            .nodes
            .iter()
            .min_by(|(_, a), (_, b)| with(a).total_cmp(&with(b)));
        lightest.map(|(holder, _)| holder.clone())
    }

    /// Gives a partition away that nobody has, or that its holder is to release.
    pub(super) fn place(&mut self, partition: usize) -> Option<Holder> {
        let holder = self.lightest(partition)?;
        self.add(&holder, partition, 1.0);
        Some(holder)
    }

    /// The partitions in `numbers`, heaviest first: the last ones even out what the first ones left.
    pub(super) fn heaviest_first(&self, mut numbers: Vec<usize>) -> Vec<usize> {
        let weight = |&partition: &usize| {
            let weight = self.weights[partition];
            weight.bytes + weight.requests
        };
        numbers.sort_by(|a, b| weight(b).total_cmp(&weight(a)).then(a.cmp(b)));
        numbers
    }

    /// Has partitions move from nodes that carry too much, at most `most` of them. `rested` are those that have been
    /// where they are for a while; others move only to a node that has much less than its share.
    pub(super) fn even_out(
        &mut self,
        assignment: &mut Assignment,
        most: usize,
        rested: &BTreeSet<usize>,
    ) {
        for _ in 0..most {
            let Some((partition, to)) = self.best_move(assignment, rested) else {
                return;
            };
            let share = &mut assignment.shares[partition];
            let from = share.holder.clone();
            share.moving = Some(Moving {
                to: Some(to.clone()),
            });
            from.iter().for_each(|from| self.add(from, partition, -1.0));
            self.add(&to, partition, 1.0);
        }
    }

    fn best_move(
        &self,
        assignment: &Assignment,
        rested: &BTreeSet<usize>,
    ) -> Option<(usize, Holder)> {
        let by_load =
            |(_, a): &(&Holder, &Load), (_, b): &(&Holder, &Load)| a.of().total_cmp(&b.of());
        let (heavy, heaviest) = self.nodes.iter().max_by(by_load)?;
        let (light, lightest) = self.nodes.iter().min_by(by_load)?;
        let capacity: f64 = self.nodes.values().map(|load| load.capacity).sum();
        let fair = 1.0 / capacity;
        if heaviest.of() <= fair * (1.0 + SLACK) {
            return None;
        }
        let is_new = lightest.of() < fair * (1.0 - SLACK);
        let after = |partition: usize| {
            let weight = self.weights[partition];
            heaviest
                .with(weight, -1.0)
                .of()
                .max(lightest.with(weight, 1.0).of())
        };
        let shares = assignment.shares.iter().enumerate();
        let movable = shares.filter(|(partition, share)| {
            share.holder.as_ref() == Some(heavy)
                && share.moving.is_none()
                && (is_new || rested.contains(partition))
        });
        let (partition, after) = movable
            .map(|(partition, _)| (partition, after(partition)))
            .min_by(|a, b| a.1.total_cmp(&b.1))?;
        // It must leave both with clearly less than the one has now; the way back would do the opposite.
        (after < heaviest.of() - fair * SLACK / 4.0).then(|| (partition, light.clone()))
    }
}

fn will_hold(share: &Share) -> Option<&Holder> {
    match &share.moving {
        Some(moving) => moving.to.as_ref(),
        None => share.holder.as_ref(),
    }
}
