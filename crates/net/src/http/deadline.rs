//! One timer for a connection's whole life. It is set anew only when it fires too early, so that a
//! request costs no timer operation as a rule, and a read costs one look at the clock.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};

pub(crate) struct Deadline {
    timer: Pin<Box<Sleep>>,
    /// The request as a whole must have ended by then.
    request_end: Instant,
    /// Something must have come by then.
    silence_end: Instant,
}

impl Deadline {
    pub(crate) fn new() -> Self {
        let now = Instant::now();
        Self {
            timer: Box::pin(sleep_until(now)),
            request_end: now,
            silence_end: now,
        }
    }

    pub(crate) fn start(&mut self, now: Instant, request: Duration, silence: Duration) {
        self.request_end = now + request;
        self.silence_end = now + silence;
    }

    /// The request may end that much later.
    pub(crate) fn put_off(&mut self, by: Duration) {
        self.request_end += by;
    }

    pub(crate) fn allow_silence(&mut self, now: Instant, silence: Duration) {
        self.silence_end = now + silence;
    }

    pub(crate) fn has_passed(&self, now: Instant) -> bool {
        now >= self.due()
    }

    /// What the future comes to, or `None` if the deadline passes first.
    pub(crate) async fn race<T>(&mut self, future: impl Future<Output = T>) -> Option<T> {
        let mut future = pin!(future);
        poll_fn(|cx| match future.as_mut().poll(cx) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending => self.poll(cx).map(|()| None),
        })
        .await
    }

    /// Ready once the deadline in force has passed.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let due = self.due();
        if self.timer.deadline() > due {
            self.timer.as_mut().reset(due);
        }
        loop {
            if self.timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            if Instant::now() >= due {
                return Poll::Ready(());
            }
            self.timer.as_mut().reset(due);
        }
    }

    fn due(&self) -> Instant {
        self.request_end.min(self.silence_end)
    }
}
