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
