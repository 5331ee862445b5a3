//! The pages that the fleet may still fetch: what each node's life has taken, in one key, by compare-and-swap.

use crate::error::FleetError;
use crate::names::BUDGET;
use crate::nats::{Kv, Swap};
use crate::records::Incarnation;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Budget {
    /// `None`: no limit.
    pub(crate) limit: Option<u64>,
    /// What each life of a node has taken; of one that is over, what it has settled.
    taken: BTreeMap<Incarnation, u64>,
    /// Makes each value differ from the ones before.
    changes: u64,
}

impl Budget {
    pub(crate) fn new(limit: Option<u64>) -> Self {
        Self {
            limit,
            ..Self::default()
        }
    }

    pub(crate) fn left(&self) -> Option<u64> {
        let taken: u64 = self.taken.values().sum();
        self.limit.map(|limit| limit.saturating_sub(taken))
    }

    /// Without a limit nothing is counted: no two nodes wait for each other.
    fn take(&mut self, incarnation: Incarnation, pages: u64) -> u64 {
        let granted = self.left().map_or(pages, |left| left.min(pages));
        if self.limit.is_some() {
            *self.taken.entry(incarnation).or_default() += granted;
        }
        granted
    }

    fn give_back(&mut self, incarnation: Incarnation, pages: u64) {
        if let Some(taken) = self.taken.get_mut(&incarnation) {
            *taken = taken.saturating_sub(pages);
        }
    }

    /// What a life took is gone with it: only what it has settled counts.
    fn settle(&mut self, incarnation: Incarnation, pages: u64) {
        if let Some(taken) = self.taken.get_mut(&incarnation) {
            *taken = (*taken).min(pages);
        }
    }

    fn is_settled(&self, incarnation: Incarnation, pages: u64) -> bool {
        let taken = self.taken.get(&incarnation);
        taken.is_none_or(|taken| *taken <= pages)
    }
}

pub(crate) async fn read(main: &Kv) -> Result<Budget, FleetError> {
    let entry = main.get(BUDGET).await?;
    parse(entry.value.as_deref())
}

pub(crate) async fn take(
    main: &Kv,
    incarnation: Incarnation,
    pages: u64,
) -> Result<u64, FleetError> {
    change(main, |budget| budget.take(incarnation, pages)).await
}

pub(crate) async fn give_back(
    main: &Kv,
    incarnation: Incarnation,
    pages: u64,
) -> Result<(), FleetError> {
    change(main, |budget| budget.give_back(incarnation, pages)).await
}

/// Lives that are over, or begin again, and the pages that each has settled.
pub(crate) async fn settle(
    main: &Kv,
    lives: impl IntoIterator<Item = (Incarnation, u64)>,
) -> Result<(), FleetError> {
    let budget = read(main).await?;
    let mut lives: Vec<_> = lives.into_iter().collect();
    lives.retain(|(incarnation, pages)| !budget.is_settled(*incarnation, *pages));
    if lives.is_empty() {
        return Ok(());
    }
    change(main, |budget| {
        for (incarnation, pages) in &lives {
            budget.settle(*incarnation, *pages);
        }
    })
    .await
}

/// False if there is no limit.
pub(crate) async fn set_limit(main: &Kv, pages: u64) -> Result<bool, FleetError> {
    change(main, |budget| {
        budget.limit = budget.limit.map(|_| pages);
        budget.limit.is_some()
    })
    .await
}

async fn change<T>(main: &Kv, mut change: impl FnMut(&mut Budget) -> T) -> Result<T, FleetError> {
    let mut entry = main.get(BUDGET).await?;
    loop {
        let mut budget = parse(entry.value.as_deref())?;
        let result = change(&mut budget);
        if budget.limit.is_none() {
            return Ok(result);
        }
        budget.changes += 1;
        let json = serde_json::to_vec(&budget).unwrap_or_default();
        match main.swap(BUDGET, Some(json.into()), entry.revision).await? {
            Swap::Done(_) => return Ok(result),
            Swap::Lost(now) => entry = now,
        }
    }
}

fn parse(json: Option<&[u8]>) -> Result<Budget, FleetError> {
    let Some(json) = json else {
        return Ok(Budget::default());
    };
    serde_json::from_slice(json)
        .map_err(|error| FleetError::Damaged(format!("the page budget: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_lost_node_has_not_settled_is_there_again() {
        let mut budget = Budget::new(Some(100));
        assert_eq!(budget.take(1, 60), 60);
        assert_eq!(budget.take(2, 60), 40);
        assert_eq!(budget.take(2, 60), 0);
        budget.give_back(2, 10);
        budget.settle(1, 25);
        assert_eq!(budget.left(), Some(45));
        assert_eq!(Budget::new(None).take(1, 7), 7);
    }
}
