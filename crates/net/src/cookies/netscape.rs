//! The format of cookie files that Netscape began, curl and wget write, and browsers' add-ons export: a cookie a line, seven fields
//! between tabs.

use super::{Cookie, CookieJar, bare};
use thiserror::Error;

/// Marks a cookie that scripts do not see; the rest of the line is as usual.
const HTTP_ONLY: &str = "#HttpOnly_";

/// A line that is no cookie. Its text may be a secret and is not told.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line} is no cookie in Netscape's format: seven fields between tabs")]
pub struct NotCookies {
    pub line: usize,
}

impl CookieJar {
    pub fn from_netscape(text: &str, now_ms: u64) -> Result<Self, NotCookies> {
        let mut jar = Self::default();
        for (number, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
            let (http_only, line) = match line.strip_prefix(HTTP_ONLY) {
                Some(line) => (true, line),
                None => (false, line),
            };
            if line.trim().is_empty() || (!http_only && line.starts_with('#')) {
                continue;
            }
            let wrong = || NotCookies { line: number + 1 };
            let fields: Vec<&str> = line.splitn(7, '\t').collect();
            // A value may be empty, and some leave its tab out.
            let [domain, below, path, secure, expires, name, value @ ..] = &fields[..] else {
                return Err(wrong());
            };
            let flag = |text: &str| match text {
                "TRUE" | "true" => Some(true),
                "FALSE" | "false" => Some(false),
                _ => None,
            };
            let host = bare(domain.trim_start_matches('.')).to_ascii_lowercase();
            let expires_s: f64 = expires.parse().map_err(|_| wrong())?;
            if host.is_empty() || !path.starts_with('/') || name.is_empty() {
                return Err(wrong());
            }
            let cookie = Cookie {
                name: (*name).to_owned(),
                value: value
                    .first()
                    .unwrap_or(&"")
                    .trim_end_matches('\r')
                    .to_owned(),
                path: (*path).to_owned(),
                host_only: !flag(below).ok_or_else(wrong)?,
                secure: flag(secure).ok_or_else(wrong)?,
                http_only,
                // 0 or -1: as long as the session.
                expires_ms: (expires_s > 0.0).then_some((expires_s * 1000.0) as u64),
                order: 0,
            };
            jar.insert(host, cookie, now_ms);
        }
        Ok(jar)
    }

    /// Without what is over. Secrets: for the crawl's own directory.
    pub fn to_netscape(&self, now_ms: u64) -> String {
        let mut all: Vec<(&String, &Cookie)> = self
            .domains
            .iter()
            .flat_map(|(domain, cookies)| cookies.iter().map(move |cookie| (domain, cookie)))
            .filter(|(_, cookie)| !cookie.is_over(now_ms))
            .collect();
        all.sort_by_key(|(_, cookie)| cookie.order);
        let flag = |is: bool| if is { "TRUE" } else { "FALSE" };
        all.into_iter()
            .map(|(domain, cookie)| {
                let http_only = if cookie.http_only { HTTP_ONLY } else { "" };
                let dot = if cookie.host_only { "" } else { "." };
                format!(
                    "{http_only}{dot}{domain}\t{}\t{}\t{}\t{}\t{}\t{}\n",
                    flag(!cookie.host_only),
                    cookie.path,
                    flag(cookie.secure),
                    cookie.expires_ms.map_or(0, |ms| ms.div_ceil(1000)),
                    cookie.name,
                    cookie.value,
                )
            })
            .collect()
    }
}
