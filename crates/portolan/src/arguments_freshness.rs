//! The command line of what keeps pages fresh: `freshness`, `signal`, and rates.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

/// How fresh the copies of a crawl are by now, how often the pages of each host change, and what is fetched next and why.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    portolan freshness docs                   # works while the crawl runs, too\n  \
    portolan freshness docs --rate 50/s       # what would another rate do?\n  \
    portolan freshness docs --json            # one JSON object\n\n\
    A copy is fresh while its page is as it was. How likely that is by now follows from the page's rate of change, which is learned from \
    its checks and from those of its host.")]
pub(crate) struct FreshnessArguments {
    /// The crawl's directory
    pub(crate) dir: PathBuf,
    /// What the next hour would be at this rate [default: the crawl's own]
    #[arg(long, value_name = "N/s", value_parser = parse_rate)]
    pub(crate) rate: Option<f64>,
    /// Hosts and pages that are listed
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) top: usize,
    #[arg(long)]
    pub(crate) json: bool,
}

/// Say that pages have changed: a crawl that keeps fresh asks for them next, whatever they are worth, as soon as their hosts may be
/// asked.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    portolan signal docs https://example.org/news https://example.org/\n  \
    inotifywait -m -r --format https://example.org/%f site | portolan signal docs --from -\n  \
    portolan signal docs --listen 127.0.0.1:8787        # IndexNow pings at http://127.0.0.1:8787/indexnow\n  \
    portolan signal docs --listen 0.0.0.0:8787 --trust 10.0.0.0/8\n\n\
    The URLs are left in the crawl's directory. A crawl that runs with --keep-fresh looks there twice a second; if none runs, the next one \
    heeds them. Pages that are not known yet are taken as from a sitemap.\n\n\
    What a ping names is not next whatever it is worth: the host is believed as its sitemap is. Who pings shows by a file with a key on the \
    host that it speaks for it, as IndexNow has it; --trust does without.")]
pub(crate) struct SignalArguments {
    /// The crawl's directory
    pub(crate) dir: PathBuf,
    /// Pages that have changed
    #[arg(value_name = "URL")]
    pub(crate) urls: Vec<String>,
    /// A file with one URL a line, or '-' for standard input, which is heeded line by line until it ends
    #[arg(long, value_name = "FILE|-")]
    pub(crate) from: Option<PathBuf>,
    /// Hear IndexNow pings there until Ctrl-C
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with_all = ["urls", "from"])]
    pub(crate) listen: Option<SocketAddr>,
    /// Who pings from this address or network needs no key; may be given several times
    #[arg(long, value_name = "NETWORK")]
    pub(crate) trust: Vec<String>,
    /// Tell of each ping with a key what became of it
    #[arg(short, long)]
    pub(crate) verbose: bool,
    /// Say nothing but what goes wrong
    #[arg(long)]
    pub(crate) quiet: bool,
}

/// `50/s`, `10/m`, `2000/h`, `1000000/d`; a bare number is a second's.
pub(crate) fn parse_rate(text: &str) -> Result<f64, String> {
    const HELP: &str = "write a number and what it is for: 50/s, 10/m, 2000/h or 1000000/d";
    let (number, unit) = text.split_once('/').unwrap_or((text, "s"));
    let seconds = match unit.trim() {
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3_600.0,
        "d" | "day" => 86_400.0,
        _ => return Err(HELP.into()),
    };
    let number: f64 = number.trim().parse().map_err(|_| HELP)?;
    match number.is_finite() && number > 0.0 {
        true => Ok(number / seconds),
        false => Err(HELP.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::parse_rate;

    #[test]
    fn rates_have_units() {
        assert_eq!(parse_rate("50/s"), Ok(50.0));
        assert_eq!(parse_rate("0.5"), Ok(0.5));
        assert_eq!(parse_rate("120/m"), Ok(2.0));
        assert_eq!(parse_rate("86400/d"), Ok(1.0));
        for wrong in ["", "fast", "0/s", "-1/s", "1/y", "inf/s", "/s"] {
            assert!(parse_rate(wrong).is_err(), "{wrong}");
        }
    }
}
