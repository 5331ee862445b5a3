//! Crawls from a URL with the crate `spider`: all hosts of its domain, robots.txt obeyed, no delay.
//! Stores nothing, or a WARC file where one is named. Arguments: URL CONNECTIONS [WARC-FILE].

use spider::utils::warc::WarcConfig;
use spider::website::Website;

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().expect("a URL");
    let connections = arguments.next().and_then(|n| n.parse().ok());
    let mut website = Website::new(&url);
    website
        .with_respect_robots_txt(true)
        .with_subdomains(true)
        .with_tld(true)
        .with_depth(0)
        .with_delay(0)
        .with_concurrency_limit(connections);
    if let Some(path) = arguments.next() {
        website.configuration.with_warc(WarcConfig {
            path,
            ..WarcConfig::default()
        });
    }
    website.crawl().await;
    if let Some(writer) = website.get_warc_writer() {
        writer.flush().await.expect("the WARC is written");
    }
    println!(
        "{} links, {} records",
        website.size(),
        website.warc_record_count()
    );
}
