//! Sees a page's answer while it comes: refuses bodies that nobody wants, makes large ones wait
//! for a place in memory, and lets links leave early.

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;

use portolan_content::MimeType;
use portolan_model::{LinkKind, Reason};
use portolan_net::{BodySink, Head, Wait};
use tokio::sync::OwnedSemaphorePermit;

use crate::early::{EarlyLinks, Source};
use crate::shared::Shared;

/// A body that grows past this must have one of the few places for large bodies: whatever servers
/// send, at most `connections` small bodies and `LARGE_BODIES` large ones are in memory.
const LARGE_BODY_BYTES: usize = 256 * 1024;

pub(crate) struct BodyWatch<'a> {
    shared: Arc<Shared>,
    /// Links that leave while the body comes.
    early: Option<EarlyLinks<'a>>,
    /// Bytes of the body that were shown.
    shown_bytes: usize,
    any_type: bool,
    /// Its host is read slowly because a person said so.
    pub(crate) is_paced: bool,
    /// Why the body is not wanted.
    pub(crate) refused: Option<Reason>,
    /// Held until the answer is processed.
    place: Rc<RefCell<Option<OwnedSemaphorePermit>>>,
}

impl<'a> BodyWatch<'a> {
    /// A sitemap is wanted whatever its type.
    pub(crate) fn new(shared: &Arc<Shared>, kind: LinkKind) -> Self {
        Self {
            shared: Arc::clone(shared),
            early: None,
            shown_bytes: 0,
            any_type: kind == LinkKind::Sitemap,
            is_paced: false,
            refused: None,
            place: Rc::default(),
        }
    }

    /// The links of this page may leave while its body comes.
    pub(crate) fn with_early_links(mut self, source: Source<'a>) -> Self {
        if !self.any_type {
            self.early = Some(EarlyLinks::new(source));
        }
        self
    }

    /// A large body waits for a place.
    fn wait_for_place(&self, so_far_bytes: usize) -> Option<Wait> {
        if so_far_bytes < LARGE_BODY_BYTES || self.place.borrow().is_some() {
            return None;
        }
        let places = match self.is_paced {
            true => Arc::clone(&self.shared.paced_bodies),
            false => Arc::clone(&self.shared.large_bodies),
        };
        let place = Rc::clone(&self.place);
        Some(Box::pin(async move {
            *place.borrow_mut() = places.acquire_owned().await.ok();
        }))
    }
}

impl BodySink for BodyWatch<'_> {
    fn head(&mut self, head: &Head) -> ControlFlow<()> {
        if let Some(early) = &mut self.early {
            early.head(head);
        }
        let wanted = &self.shared.settings.content.types;
        if self.any_type || wanted.is_empty() || !(200..300).contains(&head.status()) {
            return ControlFlow::Continue(());
        }
        let mime = head.get("content-type").and_then(MimeType::parse_header);
        match mime {
            Some(mime) if !is_wanted(mime.essence(), wanted) && !leads_on(mime.essence()) => {
                self.refused = Some(Reason::ContentType);
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        }
    }

    fn body(&mut self, bytes: &[u8]) -> ControlFlow<()> {
        self.shown_bytes += bytes.len();
        ControlFlow::Continue(())
    }

    fn wait_before_more(&mut self, so_far: &[u8]) -> Option<Wait> {
        let place = self.wait_for_place(so_far.len());
        // What was not shown is packed.
        let is_shown = so_far.len() == self.shown_bytes;
        let early = self.early.as_mut().filter(|_| is_shown);
        match (place, early.and_then(|early| early.look(so_far))) {
            (Some(place), Some(left)) => Some(Box::pin(async move {
                left.await;
                place.await;
            })),
            (place, left) => place.or(left),
        }
    }
}

/// Directories and menus are the pages of FTP and Gopher: without them nothing would be found there.
fn leads_on(mime: &str) -> bool {
    matches!(mime, "text/ftp-dir-listing" | "application/gopher-menu")
}

/// `text/html` is itself, `text/*` all of a kind.
pub(crate) fn is_wanted(mime: &str, wanted: &[String]) -> bool {
    wanted
        .iter()
        .any(|pattern| match pattern.strip_suffix("/*") {
            Some(kind) => mime.split('/').next() == Some(kind),
            None => mime.eq_ignore_ascii_case(pattern),
        })
}
