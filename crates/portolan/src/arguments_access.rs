//! Options of `portolan crawl` about access: what is sent along, and to whom.

use clap::Args;
use portolan_crawl::Settings;
use portolan_crawl::settings::HostSettings;

use crate::failure::Failure;

#[derive(Args)]
#[command(next_help_heading = "Access")]
pub(crate) struct AccessArguments {
    /// Send a header field with every request, such as 'X-Purpose: archive'
    #[arg(long, value_name = "NAME:VALUE")]
    header: Vec<String>,
    /// Basic authentication for one host. HOST is https://HOST; write http:// or :PORT where that is meant. USER:PASSWORD may
    /// be in the environment or in a file
    #[arg(long, value_name = "HOST=USER:PASSWORD|env:NAME|file:PATH")]
    auth: Vec<String>,
    /// A bearer token for one host, which is written as with --auth
    #[arg(long, value_name = "HOST=TOKEN|env:NAME|file:PATH")]
    bearer: Vec<String>,
    /// Send the cookies of a file in Netscape's format, each to the hosts that it names
    #[arg(long, value_name = "FILE")]
    cookies: Option<String>,
    /// Obey Set-Cookie, and keep cookies with the crawl
    #[arg(long)]
    keep_cookies: bool,
    /// Read at most this many bytes a second over all hosts, such as 500K or 2M; 0 is no limit
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    limit_rate: Option<u64>,
    /// Read at most this many bytes a second of each host; 0 is no limit
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    limit_rate_per_host: Option<u64>,
    /// Ask through a proxy: http://, https:// or socks5://[USER:PASSWORD@]HOST:PORT, or env:NAME or file:PATH that holds such
    /// a URL [default: http_proxy, https_proxy and all_proxy of the environment]
    #[arg(long, value_name = "URL")]
    proxy: Option<String>,
    /// Hosts that are asked without a proxy, between commas; '*' is all [default: no_proxy of the environment]
    #[arg(long, value_name = "HOSTS")]
    no_proxy: Option<String>,
    /// Let the proxy resolve names (socks5h://); private networks cannot be guarded then
    #[arg(long)]
    proxy_resolves: bool,
}

impl AccessArguments {
    /// Options win over the file: their blocks come before those of the file, and take the place of such as an earlier
    /// run was given.
    pub(crate) fn apply(&self, settings: &mut Settings) -> Result<(), Failure> {
        let headers = &mut settings.access.headers;
        for header in &self.header {
            if !headers.contains(header) {
                headers.push(header.clone());
            }
        }
        if let Some(bytes_per_s) = self.limit_rate {
            settings.limits.bytes_per_s = bytes_per_s;
        }
        if let Some(bytes_per_s) = self.limit_rate_per_host {
            settings.limits.bytes_per_s_per_host = bytes_per_s;
        }
        if let Some(file) = &self.cookies {
            settings.access.cookies.clone_from(file);
        }
        settings.access.keep_cookies |= self.keep_cookies;
        if let Some(proxy) = &self.proxy {
            settings.access.proxy.0.clone_from(proxy);
        }
        if let Some(hosts) = &self.no_proxy {
            settings.access.no_proxy.clone_from(hosts);
        }
        settings.access.proxy_resolves |= self.proxy_resolves;
        let mut blocks = Vec::new();
        for (option, texts, is_bearer) in [
            ("--auth", &self.auth, false),
            ("--bearer", &self.bearer, true),
        ] {
            for text in texts {
                // The text is a secret: it is not repeated.
                let block = HostSettings::with_secret(text, is_bearer)
                    .map_err(|e| Failure::usage(format!("{option}: {e}")))?;
                blocks.push(block);
            }
        }
        let is_old = |old: &HostSettings| blocks.iter().any(|block| old.is_replaced_by(block));
        settings.host.retain(|old| !is_old(old));
        settings.host.splice(..0, blocks);
        Ok(())
    }
}

/// A number of bytes a second; K, M and G stand for 1024 times as many each.
fn parse_rate(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{text}' is no rate; write it as in 500K, 2M or 100000");
    let (digits, factor) = match text.chars().last().map(|last| last.to_ascii_uppercase()) {
        Some('K') => (&text[..text.len() - 1], 1u64 << 10),
        Some('M') => (&text[..text.len() - 1], 1 << 20),
        Some('G') => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1),
    };
    let number: f64 = digits.parse().map_err(|_| wrong())?;
    let bytes = number * factor as f64;
    if !bytes.is_finite() || !(0.0..1e15).contains(&bytes) {
        return Err(wrong());
    }
    Ok(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_written_as_for_curl() {
        assert_eq!(parse_rate("2M"), Ok(2 << 20));
        assert_eq!(parse_rate("1.5k"), Ok(1536));
        assert_eq!(parse_rate("100000"), Ok(100_000));
        assert_eq!(parse_rate("0"), Ok(0));
        for wrong in ["", "M", "fast", "-1", "inf", "nan", "1T"] {
            assert!(parse_rate(wrong).is_err(), "{wrong}");
        }
    }
}
