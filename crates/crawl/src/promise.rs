//! What who asks owes to the host whatever happens to us: pauses that a crash would cut short are noted
//! before the answer that asked for them is used, and a request that is given up half-way still leaves
//! its host alone.

use std::ops::ControlFlow;

use portolan_model::{HostId, Pulse};
use portolan_net::{BodySink, Head, Wait};

use crate::asker::{Asker, mood_of};
use crate::gate::Door;
use crate::politeness::Mood;
use crate::shared::Shared;

/// A request under way.
pub(crate) struct Asking {
    pub(crate) begun_ms: u64,
    pub(crate) crawl_delay_ms: Option<u64>,
}

impl Asker {
    /// The pulse has changed: if it asks for more than what is sure, that is noted now.
    pub(crate) fn promise(&self) {
        let pause_ms = self.pause_ms();
        if pause_ms > self.sure_pause_ms + 1 {
            self.shared.note_pause(self.host, pause_ms);
        }
    }

    /// Nothing more is asked: the door is given back. What no entry has recorded is noted: a crawl that ends in order goes on
    /// without any pause but those that were recorded.
    pub(crate) fn end(&mut self) {
        self.is_over = true;
        let pause_ms = self.pause_ms();
        if self.unrecorded && pause_ms > 0 {
            self.shared.note_pause(self.host, pause_ms);
        }
        let now_ms = self.shared.now_ms();
        let door = Door::Host(self.host);
        self.shared
            .gate
            .leave(door, self.pulse.not_before_ms, now_ms);
    }

    /// How long the host is to be left alone from now on, whoever starts next. A back-off of our own
    /// is no promise.
    fn pause_ms(&self) -> u64 {
        let Pulse {
            last_ms,
            not_before_ms,
            delay_ms,
            demanded,
            ..
        } = self.pulse;
        let until_ms = if self.pulse.is_failing() && !demanded {
            not_before_ms.min(last_ms + u64::from(delay_ms) + 1)
        } else {
            not_before_ms
        };
        until_ms.saturating_sub(self.shared.now_ms())
    }
}

/// The asker was given up half-way: its request was one all the same.
impl Drop for Asker {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        if let Some(asking) = self.asking.take() {
            let now_ms = self.shared.now_ms();
            let took_ms = now_ms.saturating_sub(asking.begun_ms);
            let (polite, delays) = (&self.shared.politeness, self.delays(asking.crawl_delay_ms));
            self.pulse = polite.after(&self.pulse, now_ms, took_ms, delays, Mood::Content);
            self.unrecorded = true;
        }
        self.end();
    }
}

/// Sees the head of an answer first, and notes its Retry-After while the body is still to come.
pub(crate) struct Heed<'a> {
    pub(crate) sink: &'a mut dyn BodySink,
    pub(crate) shared: &'a Shared,
    pub(crate) host: HostId,
    pub(crate) sure_pause_ms: u64,
}

impl BodySink for Heed<'_> {
    fn head(&mut self, head: &Head) -> ControlFlow<()> {
        if let Mood::Strained {
            retry_after_ms: Some(asked_ms),
            ..
        } = mood_of(head, self.shared.wall_ms())
        {
            let pause_ms = self.shared.politeness.obeyed_ms(asked_ms);
            if pause_ms > self.sure_pause_ms {
                self.shared.note_pause(self.host, pause_ms + 1);
            }
        }
        self.sink.head(head)
    }

    fn body(&mut self, bytes: &[u8]) -> ControlFlow<()> {
        self.sink.body(bytes)
    }

    fn wait_before_more(&mut self, so_far: &[u8]) -> Option<Wait> {
        self.sink.wait_before_more(so_far)
    }

    fn slow_down(&mut self, so_far_bytes: usize) -> Option<Wait> {
        self.sink.slow_down(so_far_bytes)
    }
}
