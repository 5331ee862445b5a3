//! Requests on one host in time: which overlapped, and how long the host was left alone between them. Times are nanoseconds on
//! the witness's clock and are handed in, so this can be judged without waiting.

/// Overlaps remembered for one request in progress; a client worse than that is caught all the same.
const MAX_MET: usize = 64;
/// A gap may be this much too short before it counts: the timers of both sides are coarse.
const TOLERANCE_NS: u64 = 1_000_000;
/// Gap classes: class n holds gaps below 2^n ms.
pub(crate) const GAP_CLASSES: usize = 18;

#[derive(Default)]
pub(crate) struct Lane {
    active: Vec<Active>,
    last_end_ns: Option<u64>,
    last_was_robots: bool,
    /// Set by Retry-After.
    quiet_until_ns: u64,
    pub(crate) overlaps: u64,
    pub(crate) most_at_once: u32,
    pub(crate) min_gap_ns: Option<u64>,
    pub(crate) gap_classes: [u64; GAP_CLASSES],
    pub(crate) short_gaps: u64,
    pub(crate) short_gaps_after_robots: u64,
}

struct Active {
    id: u64,
    /// Requests that came while this one was in progress, as far as one knew then: when, and how many there were with it.
    met: Vec<(u64, u32)>,
}

/// What came to light when a request began or ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Breach {
    Overlap {
        at_ns: u64,
    },
    TooSoon {
        at_ns: u64,
        gap_ns: u64,
        required_ns: u64,
    },
}

impl Lane {
    /// A request has been received. `required_ns` is the gap the host asks for.
    pub(crate) fn begin(&mut self, id: u64, at_ns: u64, required_ns: u64) -> Option<Breach> {
        let alone = self.active.is_empty();
        let at_once = self.active.len() as u32 + 1;
        for other in &mut self.active {
            if other.met.len() < MAX_MET {
                other.met.push((at_ns, at_once));
            }
        }
        self.active.push(Active {
            id,
            met: Vec::new(),
        });
        self.most_at_once = self.most_at_once.max(1);
        if alone {
            self.judge_gap(at_ns, required_ns)
        } else {
            None
        }
    }

    /// The request's last byte was handed over at `end_ns`, taken just before the write that did it. A request that came after
    /// that moment is the next one, even if it was seen before this call: no overlap.
    pub(crate) fn end(
        &mut self,
        id: u64,
        end_ns: u64,
        required_ns: u64,
        retry_after_ns: u64,
        was_robots: bool,
    ) -> Vec<Breach> {
        let Some(place) = self.active.iter().position(|a| a.id == id) else {
            return Vec::new();
        };
        let ended = self.active.swap_remove(place);
        if self.last_end_ns.is_none_or(|last| end_ns >= last) {
            self.last_end_ns = Some(end_ns);
            self.last_was_robots = was_robots;
        }
        let mut findings = Vec::new();
        for (at_ns, at_once) in ended.met {
            if at_ns < end_ns {
                self.overlaps += 1;
                self.most_at_once = self.most_at_once.max(at_once);
                findings.push(Breach::Overlap { at_ns });
            } else {
                findings.extend(self.judge_gap(at_ns, required_ns));
            }
        }
        if retry_after_ns > 0 {
            self.quiet_until_ns = self.quiet_until_ns.max(end_ns + retry_after_ns);
        }
        findings
    }

    fn judge_gap(&mut self, at_ns: u64, required_ns: u64) -> Option<Breach> {
        let last = self.last_end_ns?;
        let gap_ns = at_ns.saturating_sub(last);
        self.min_gap_ns = Some(self.min_gap_ns.map_or(gap_ns, |m| m.min(gap_ns)));
        self.gap_classes[gap_class(gap_ns)] += 1;
        let required_ns = required_ns.max(self.quiet_until_ns.saturating_sub(last));
        if gap_ns + TOLERANCE_NS >= required_ns {
            return None;
        }
        self.short_gaps += 1;
        self.short_gaps_after_robots += u64::from(self.last_was_robots);
        Some(Breach::TooSoon {
            at_ns,
            gap_ns,
            required_ns,
        })
    }
}

fn gap_class(gap_ns: u64) -> usize {
    let ms = gap_ns / 1_000_000;
    ((64 - ms.leading_zeros()) as usize).min(GAP_CLASSES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn overlap_is_judged_by_the_time_of_the_last_write() {
        let mut lane = Lane::default();
        assert_eq!(lane.begin(1, 0, 0), None);
        assert_eq!(lane.begin(2, 5 * MS, 0), None);
        assert_eq!(
            lane.end(1, 9 * MS, 0, 0, false),
            [Breach::Overlap { at_ns: 5 * MS }]
        );
        assert_eq!(lane.end(2, 12 * MS, 0, 0, false), []);
        // Seen before the end was noted, but sent after the last byte was out.
        lane.begin(3, 20 * MS, 0);
        lane.begin(4, 26 * MS, 10 * MS);
        let late = lane.end(3, 25 * MS, 10 * MS, 0, false);
        assert_eq!(
            late,
            [Breach::TooSoon {
                at_ns: 26 * MS,
                gap_ns: MS,
                required_ns: 10 * MS
            }]
        );
        assert_eq!((lane.overlaps, lane.most_at_once), (1, 2));
    }

    #[test]
    fn gaps_count_from_the_end_and_heed_retry_after() {
        let mut lane = Lane::default();
        lane.begin(1, 0, 100 * MS);
        lane.end(1, 50 * MS, 100 * MS, 0, true);
        assert_eq!(lane.begin(2, 150 * MS, 100 * MS), None);
        lane.end(2, 160 * MS, 100 * MS, 2_000 * MS, false);
        assert!(matches!(
            lane.begin(3, 1_000 * MS, 100 * MS),
            Some(Breach::TooSoon { .. })
        ));
        lane.end(3, 1_001 * MS, 100 * MS, 0, false);
        assert!(
            lane.begin(4, 1_102 * MS, 100 * MS).is_some(),
            "the promise outlasts the request that broke it"
        );
        lane.end(4, 2_200 * MS, 100 * MS, 0, false);
        assert_eq!(lane.begin(5, 2_300 * MS, 100 * MS), None);
        assert_eq!(
            (
                lane.short_gaps,
                lane.short_gaps_after_robots,
                lane.min_gap_ns
            ),
            (2, 0, Some(100 * MS))
        );
    }
}
