//! Keeps a lease: when to renew it, until when it holds, and when it is lost.
//!
//! The deadline counts from before the first attempt at a renewal was sent: whoever sees the renewal, sees it later.

/// What is to be done about a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeeperAction {
    /// Send a renewal: compare-and-swap with this revision.
    Renew { revision: u64 },
    /// It holds until then.
    Holds { until_ms: u64 },
    /// Another one wrote it: it is lost for good.
    Lost,
}

/// What became of a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    Done {
        revision: u64,
    },
    /// Another one wrote the lease, or took it away.
    Refused,
    /// Nobody knows. It is tried again with the same revision.
    Unknown,
}

/// The state of a lease that this process holds.
#[derive(Clone, Debug)]
pub struct Keeper {
    lease_ms: u64,
    revision: u64,
    /// When the next renewal is due.
    next_ms: u64,
    /// When the first attempt of the renewal that is under way was sent.
    sent_ms: Option<u64>,
    under_way: bool,
    lost: bool,
}

impl Keeper {
    /// The lease was taken, with this revision, by a write that was sent at `sent_ms`.
    pub fn new(lease_ms: u64, revision: u64, sent_ms: u64) -> Self {
        Self {
            lease_ms,
            revision,
            next_ms: sent_ms + Self::pause_ms(lease_ms),
            sent_ms: None,
            under_way: false,
            lost: false,
        }
    }

    /// Between renewals: two may fail, and there is time for a third.
    fn pause_ms(lease_ms: u64) -> u64 {
        lease_ms * 4 / 15
    }

    pub fn first_deadline_ms(&self) -> u64 {
        self.next_ms - Self::pause_ms(self.lease_ms) + self.lease_ms
    }

    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// When `tick` wants to be called next.
    pub fn next_ms(&self) -> u64 {
        self.next_ms
    }

    /// Time has passed.
    pub fn tick(&mut self, now_ms: u64) -> Option<KeeperAction> {
        if self.lost || self.under_way || now_ms < self.next_ms {
            return None;
        }
        self.under_way = true;
        self.sent_ms.get_or_insert(now_ms);
        Some(KeeperAction::Renew {
            revision: self.revision,
        })
    }

    /// A renewal has come to an end.
    pub fn renewed(&mut self, renewal: Renewal, now_ms: u64) -> Option<KeeperAction> {
        self.under_way = false;
        match renewal {
            Renewal::Unknown => {
                self.next_ms = now_ms + Self::pause_ms(self.lease_ms) / 8;
                None
            }
            Renewal::Refused => {
                self.lost = true;
                Some(KeeperAction::Lost)
            }
            Renewal::Done { revision } => {
                self.revision = revision;
                let sent_ms = self.sent_ms.take().unwrap_or(now_ms);
                self.next_ms = sent_ms + Self::pause_ms(self.lease_ms);
                Some(KeeperAction::Holds {
                    until_ms: sent_ms + self.lease_ms,
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_counts_from_before_its_first_attempt() {
        let mut keeper = Keeper::new(30_000, 7, 1_000);
        assert_eq!(keeper.first_deadline_ms(), 31_000);
        assert_eq!(keeper.tick(8_999), None);
        assert_eq!(
            keeper.tick(9_000),
            Some(KeeperAction::Renew { revision: 7 })
        );
        assert_eq!(keeper.tick(9_500), None);
        assert_eq!(keeper.renewed(Renewal::Unknown, 14_000), None);
        assert_eq!(
            keeper.tick(20_000),
            Some(KeeperAction::Renew { revision: 7 })
        );
        let holds = keeper.renewed(Renewal::Done { revision: 9 }, 21_000);
        assert_eq!(holds, Some(KeeperAction::Holds { until_ms: 39_000 }));
        assert_eq!(
            keeper.tick(40_000),
            Some(KeeperAction::Renew { revision: 9 })
        );
        assert_eq!(
            keeper.renewed(Renewal::Refused, 41_000),
            Some(KeeperAction::Lost)
        );
        assert_eq!(keeper.tick(90_000), None);
    }
}
