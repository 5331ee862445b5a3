//! The coordinator of a group under a hub: it has the group do what the hub says, and answers the hub's looks. It never ends
//! the crawl by itself.

use super::super::above::{Above, Answer};
use super::super::ending::{only_failing_left, sums};
use super::super::words::Action;
use super::Coordinator;
use crate::status::Wish;

/// What a group's coordinator knows of the hub.
#[derive(Debug, Default)]
pub(super) struct Answering {
    /// As it was seen last, with its revision; `None` before it was.
    above: Option<(u64, Above)>,
    /// The last answer.
    answer: Option<Answer>,
}

impl Answering {
    pub(super) fn hear(&mut self, revision: u64, above: Above) {
        let known = self.above.as_ref().map(|(revision, _)| *revision);
        if known.is_none_or(|known| known < revision) {
            self.above = Some((revision, above));
        }
    }
}

impl Coordinator {
    /// Does what the hub wants, or answers its look once all of the group is at its end.
    pub(super) fn answer(&mut self, actions: &mut Vec<Action>) {
        let Some(answering) = &self.answering else {
            return;
        };
        let (Some((_, above)), Some((revision, control)), Some((_, assignment))) =
            (&answering.above, &self.control, &self.assignment)
        else {
            return;
        };
        let mut new = control.clone();
        // Of the group alone: other groups may go on for long.
        new.quiet = control.wish == Wish::Run && only_failing_left(assignment, &self.nodes);
        if above.ordinal > control.obeyed && !is_over(control.wish) {
            new.obeyed = above.ordinal;
            new.wish = above.wish;
        } else if control.wish == Wish::Run && above.wish == Wish::Run {
            if control.answers < above.look + 1 {
                // The nodes look anew: what they say from then on is of after the hub's look began.
                new.answers = above.look + 1;
                new.look += 1;
            } else if self.log_is_quiet()
                && let Some(Some((sent, heard))) = sums(control.look, assignment, &self.nodes)
            {
                let answer = Answer {
                    look: control.answers - 1,
                    sent,
                    heard,
                    assignment: assignment.version,
                };
                if answering.answer != Some(answer) {
                    actions.push(Action::Answer(answer));
                }
                return;
            }
        }
        if new != *control {
            actions.push(Action::Command {
                revision: *revision,
                control: new,
            });
        }
    }

    /// An answer was given.
    pub(super) fn note_answer(&mut self, answer: Answer) {
        if let Some(answering) = &mut self.answering {
            answering.answer = Some(answer);
        }
    }
}

/// It never goes on.
fn is_over(wish: Wish) -> bool {
    matches!(wish, Wish::End | Wish::Complete)
}
