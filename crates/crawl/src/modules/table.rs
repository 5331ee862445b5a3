//! The table of modules: who reads which documents, and how often each has failed.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use portolan_content::{DocumentKind, MimeType};
use portolan_model::CanonicalUrl;
use serde::Serialize;
use tokio::time::Instant;

use super::findings::{Findings, Learned};
use super::module::{Document, Extensions, FinishedPage, Module, PageHook, effective_type};
use super::own;
use super::program::Program;
use super::run::{Failure, Input};
use super::runner::Runner;
use super::said::{self, Said};
use crate::body_watch::is_wanted;
use crate::error::CrawlError;
use crate::keep::Lastmods;
use crate::links::RawLinks;
use crate::settings::{Settings, is_name};

/// All modules of a crawl.
pub(crate) struct Modules {
    /// Portolan's own come first, then programs, then the user's in Rust.
    rows: Vec<Row>,
    runner: Runner,
    hooks: Vec<PageHook>,
    max_links: usize,
    hashes: bool,
}

struct Row {
    name: String,
    wants: Wants,
    work: Work,
    counts: Counts,
}

/// Which documents a module gets.
enum Wants {
    /// Of this kind, whatever they are called.
    Kind(DocumentKind),
    /// Media types and ranges of them.
    Types(Vec<String>),
}

enum Work {
    Own(Box<dyn Module>),
    Program(Arc<Program>),
    Rust(Arc<dyn Module>),
}

#[derive(Default)]
struct Counts {
    documents: AtomicU64,
    failed: AtomicU64,
    us: AtomicU64,
}

/// What a module did in this run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct ModuleCounts {
    /// Documents that it was given.
    pub documents: u64,
    /// Those of them that it failed with; each such document has the fact `MODULE.error`.
    pub failed: u64,
    /// How long it took, from when its runs were wanted to their ends.
    pub seconds: f64,
}

/// What programs said of one document, by the rows of the table.
#[derive(Default)]
pub(crate) struct Reports(Vec<(usize, Result<Said, Failure>)>);

impl Modules {
    /// Everything that a person can get wrong is found here.
    pub(crate) fn new(settings: &Settings, added: &Extensions) -> Result<Self, CrawlError> {
        let mut rows: Vec<Row> = own::all(settings)
            .into_iter()
            .map(|(kind, module)| Row {
                name: module.name().to_owned(),
                wants: Wants::Kind(kind),
                work: Work::Own(module),
                counts: Counts::default(),
            })
            .collect();
        for program in &settings.module {
            rows.push(Row {
                name: program.own_name().to_owned(),
                wants: Wants::Types(program.types.clone()),
                work: Work::Program(Arc::new(Program::find(program)?)),
                counts: Counts::default(),
            });
        }
        for module in &added.modules {
            let name = module.name();
            let others = rows.iter().filter(|row| !row.is_own());
            if !is_name(name) || others.into_iter().any(|row| row.name == name) {
                return Err(CrawlError::Input(format!(
                    "module '{name}': a name must be letters, digits, '-' and '_', and no other module's"
                )));
            }
            rows.push(Row {
                name: name.to_owned(),
                wants: Wants::Types(module.types()),
                work: Work::Rust(Arc::clone(module)),
                counts: Counts::default(),
            });
        }
        Ok(Self {
            rows,
            runner: Runner::default(),
            hooks: added.hooks.clone(),
            max_links: settings.content.max_links,
            hashes: settings.content.simhash,
        })
    }

    /// Begin the thread for programs, if there are any.
    pub(crate) fn begin(&self) -> Result<(), CrawlError> {
        match self.has_programs() {
            true => self.runner.begin(),
            false => Ok(()),
        }
    }

    /// No program runs after this.
    pub(crate) fn end(&self) {
        self.runner.end();
    }

    pub(crate) fn has_programs(&self) -> bool {
        let mut rows = self.rows.iter();
        rows.any(|row| matches!(row.work, Work::Program(_)))
    }

    /// Are there modules besides Portolan's own? What they say of a document may differ from the last time.
    pub(crate) fn has_others(&self) -> bool {
        self.rows.iter().any(|row| !row.is_own())
    }

    /// Have the programs read a document that are for such documents, one after the other.
    pub(crate) async fn ask_programs(
        &self,
        url: &CanonicalUrl,
        mime: Option<&MimeType>,
        body: Cow<'_, [u8]>,
    ) -> Reports {
        let media_type = effective_type(mime, &body);
        let is_for_it =
            |row: &Row| matches!(row.work, Work::Program(_)) && row.wants_type(mime, &body);
        let wanting: Vec<usize> = (0..self.rows.len())
            .filter(|&number| is_for_it(&self.rows[number]))
            .collect();
        if wanting.is_empty() {
            return Reports::default();
        }
        let body = Arc::new(body.into_owned());
        let mut reports = Reports::default();
        for number in wanting {
            let row = &self.rows[number];
            let Work::Program(program) = &row.work else {
                continue;
            };
            let input = Input {
                url: url.as_str().to_owned(),
                media_type: media_type.to_owned(),
                body: Arc::clone(&body),
            };
            let begun = Instant::now();
            let said = self.runner.run(program, input).await;
            row.counts.note(begun, said.is_ok());
            if let Err(failure) = &said {
                tracing::info!(module = row.name, %url, %failure, "a module failed");
            }
            reports.0.push((number, said));
        }
        reports
    }

    /// Read a document: its links to `raw`, the rest is returned. `reports` is what programs said of it.
    pub(crate) fn read(
        &self,
        raw: &mut RawLinks,
        lastmods: &mut Lastmods,
        document: &Document<'_>,
        reports: Reports,
    ) -> Learned {
        raw.clear(self.max_links);
        let mut learned = Learned::default();
        let mut findings = |row: usize, tell: &mut dyn FnMut(&mut Findings<'_>)| {
            tell(&mut Findings {
                by: &self.rows[row].name,
                raw,
                lastmods,
                learned: &mut learned,
                hashes: self.hashes,
            });
        };
        let mut reports = reports.0.into_iter().peekable();
        for (number, row) in self.rows.iter().enumerate() {
            match &row.work {
                Work::Own(module) if row.wants_kind(document.kind) => {
                    findings(number, &mut |findings| module.read(document, findings));
                }
                Work::Program(_) => {
                    if let Some((_, said)) = reports.next_if(|(of, _)| *of == number) {
                        let mut said = Some(said);
                        findings(number, &mut |findings| match said.take() {
                            Some(Ok(said)) => said::tell(said, findings),
                            Some(Err(failure)) => findings.fact("error", failure),
                            None => {}
                        });
                    }
                }
                Work::Rust(module) if row.wants_type(document.mime, document.body) => {
                    findings(number, &mut |findings| {
                        row.read(&**module, document, findings)
                    });
                }
                _ => {}
            }
        }
        learned
    }

    /// What modules besides Portolan's own did in this run.
    pub(crate) fn counts(&self) -> BTreeMap<String, ModuleCounts> {
        let others = self.rows.iter().filter(|row| !row.is_own());
        others
            .map(|row| (row.name.clone(), row.counts.read()))
            .collect()
    }

    pub(crate) fn has_hooks(&self) -> bool {
        !self.hooks.is_empty()
    }

    /// Show a finished page to whoever asked for it.
    pub(crate) fn show(&self, page: &FinishedPage<'_>) -> Result<(), CrawlError> {
        for hook in &self.hooks {
            catch_unwind(AssertUnwindSafe(|| hook(page))).map_err(|_| {
                CrawlError::Internal(format!("a hook for pages panicked at {}", page.url()))
            })?;
        }
        Ok(())
    }
}

impl Row {
    fn is_own(&self) -> bool {
        matches!(self.work, Work::Own(_))
    }

    fn wants_kind(&self, kind: DocumentKind) -> bool {
        matches!(self.wants, Wants::Kind(wanted) if wanted == kind)
    }

    fn wants_type(&self, mime: Option<&MimeType>, body: &[u8]) -> bool {
        match &self.wants {
            Wants::Kind(_) => false,
            Wants::Types(types) => {
                types.iter().any(|range| range == "*/*")
                    || is_wanted(effective_type(mime, body), types)
            }
        }
    }

    /// A user's module that panics has failed with this document, and with no other.
    fn read(&self, module: &dyn Module, document: &Document<'_>, findings: &mut Findings<'_>) {
        let begun = Instant::now();
        let read = catch_unwind(AssertUnwindSafe(|| module.read(document, findings)));
        self.counts.note(begun, read.is_ok());
        if read.is_err() {
            tracing::warn!(
                module = self.name,
                url = document.url(),
                "a module panicked"
            );
            findings.fact("error", "it panicked");
        }
    }
}

impl Counts {
    fn note(&self, begun: Instant, well: bool) {
        self.documents.fetch_add(1, Ordering::Relaxed);
        self.failed.fetch_add(u64::from(!well), Ordering::Relaxed);
        let took_us = begun.elapsed().as_micros() as u64;
        self.us.fetch_add(took_us, Ordering::Relaxed);
    }

    fn read(&self) -> ModuleCounts {
        ModuleCounts {
            documents: self.documents.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            seconds: self.us.load(Ordering::Relaxed) as f64 / 1e6,
        }
    }
}
