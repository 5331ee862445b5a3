//! A Web of a few pages that a test writes itself, on several hosts, and crawls of it.

use super::fixed::{Fixed, page, serve_hosts};
use super::{Ran, portolan, run};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

/// A small Web of pages that a test writes itself, which remembers what it was asked for.
pub struct Small {
    server: Fixed,
    asked: Arc<Mutex<Vec<String>>>,
    pages: Arc<Mutex<BTreeMap<String, String>>>,
    dir: TempDir,
}

impl Small {
    /// Pages by host and path, as in `a.test/x`.
    pub fn serve(pages: &[(&str, &str)]) -> Self {
        let pages: BTreeMap<String, String> = pages
            .iter()
            .map(|(url, body)| ((*url).to_owned(), (*body).to_owned()))
            .collect();
        let pages = Arc::new(Mutex::new(pages));
        let served = Arc::clone(&pages);
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&asked);
        let server = serve_hosts(move |host, path| {
            let url = format!("{host}{path}");
            let answer = match served.lock().expect("no panic").get(&url) {
                Some(answer) if answer.starts_with("HTTP/") => answer.clone(),
                Some(body) => page(body),
                None => "HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
                    .into(),
            };
            seen.lock().expect("no panic").push(url);
            answer.into_bytes()
        });
        Small {
            server,
            asked,
            pages,
            dir: TempDir::new().expect("a directory"),
        }
    }

    /// From now on this is at `url`; `None` is nothing.
    pub fn change(&self, url: &str, body: Option<&str>) {
        let mut pages = self.pages.lock().expect("no panic");
        match body {
            Some(body) => pages.insert(url.to_owned(), body.to_owned()),
            None => pages.remove(url),
        };
    }

    pub fn out(&self) -> PathBuf {
        self.dir.path().join("crawl")
    }

    pub fn crawl(&self, arguments: &[&str]) -> Value {
        self.ran(arguments).json()
    }

    pub fn ran(&self, arguments: &[&str]) -> Ran {
        run(&mut self.command(arguments)).succeeded()
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = portolan();
        command
            .arg("crawl")
            .args(arguments)
            .arg("--out")
            .arg(self.out())
            .arg("--resolve")
            .arg(self.resolve())
            .args(["--delay", "0s", "--json"]);
        command
    }

    /// Every host is here.
    pub fn resolve(&self) -> String {
        format!("*.test={}", self.server.addr)
    }

    pub fn config(&self, settings: &str) -> String {
        let path = self.dir.path().join("settings.toml");
        std::fs::write(&path, settings).expect("a settings file");
        path.display().to_string()
    }

    /// What was asked for since the last look, in order, robots.txt left out.
    pub fn asked_in_order(&self) -> Vec<String> {
        let mut asked = std::mem::take(&mut *self.asked.lock().expect("no panic"));
        asked.retain(|url| !url.ends_with("/robots.txt"));
        asked
    }

    /// The same as a set. Nothing may be asked for twice.
    pub fn asked(&self) -> BTreeSet<String> {
        let asked = self.asked_in_order();
        let distinct: BTreeSet<String> = asked.iter().cloned().collect();
        assert_eq!(distinct.len(), asked.len(), "twice: {asked:?}");
        distinct
    }

    pub fn why(&self, url: &str) -> String {
        let mut command = portolan();
        run(command.arg("why").arg(self.out()).arg(url)).out
    }
}

pub fn set(urls: &[&str]) -> BTreeSet<String> {
    urls.iter().map(|url| (*url).to_owned()).collect()
}
