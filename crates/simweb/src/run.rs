//! Runs a Web for a person: says how to crawl it, waits to be stopped, and tells what the witness saw.

use crate::server::{Server, ServerError, ServerOptions};
use crate::spec::{SpecError, WebSpec};
use crate::web::Web;
use crate::witness::WitnessReport;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Spec(#[from] SpecError),
    #[error(transparent)]
    Server(#[from] ServerError),
    #[error("cannot write: {0}")]
    Write(#[from] io::Error),
}

/// Ends a `run` from another thread, a signal handler's for example.
#[derive(Clone, Default)]
pub struct StopHandle(Arc<(Mutex<bool>, Condvar)>);

impl StopHandle {
    pub fn new() -> Self {
        StopHandle::default()
    }

    pub fn stop(&self) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.1.notify_all();
    }

    fn wait(&self) {
        let mut stopped = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        while !*stopped {
            stopped = self
                .0
                .1
                .wait(stopped)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Serves the Web until `stop` is called; writes how to crawl it to `out`, and at the end the witness's report.
pub fn run(
    spec: WebSpec,
    options: &ServerOptions,
    stop: &StopHandle,
    out: &mut dyn Write,
) -> Result<WitnessReport, RunError> {
    let web = Arc::new(Web::new(spec)?);
    let server = Server::start_with(web.clone(), options)?;
    let (hosts, pages) = (web.host_count(), web.page_count());
    writeln!(
        out,
        "A Web of {hosts} hosts and {pages} pages is served on {}.",
        server.addr()
    )?;
    writeln!(out, "Crawl it:   {}", crawl_command(&web, &server))?;
    writeln!(
        out,
        "Ask the witness:   curl {}",
        control_url(&web, &server, "report")
    )?;
    if let Some(addr) = server.dns_addr() {
        writeln!(out, "Its DNS server: {addr}")?;
    }
    if let Some(pem) = server.certificate_pem() {
        writeln!(out, "Its certificate:\n{pem}")?;
    }
    writeln!(out, "Ctrl-C stops it.")?;
    out.flush()?;
    stop.wait();
    let report = server.shutdown().report();
    writeln!(out, "What the witness saw:\n{report}")?;
    out.flush()?;
    Ok(report)
}

/// The command that crawls a served Web from its home page.
pub fn crawl_command(web: &Web, server: &Server) -> String {
    let (home, suffix) = (web.spec().home_url(), &web.spec().suffix);
    format!(
        "portolan crawl {home} --scope any --resolve '*.{suffix}={}'",
        server.addr()
    )
}

/// The address of a control page, see `/-/`.
pub fn control_url(web: &Web, server: &Server, page: &str) -> String {
    let scheme = if web.spec().tls { "https" } else { "http" };
    format!("{scheme}://{}/-/{page}", server.addr())
}
