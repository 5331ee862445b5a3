//! `portolan bench frontier-server`: what a URLFrontier server, ours or another, does in a second, and what it costs.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use portolan_urlfrontier::api::{
    AckMessage, DeleteCrawlMessage, DiscoveredUrlItem, GetParams, UrlInfo, UrlItem, get_params,
    url_item,
};
use portolan_urlfrontier::{Client, ServerAddress};
use serde::Serialize;

use super::bench::load_average;
use crate::arguments_bench::BenchFrontierServerArguments;
use crate::failure::Failure;
use crate::output::sayln;

/// The crawl that the URLs are of. Nothing else at the server is touched: others may be at work there.
const CRAWL: &str = "BENCH";
/// URLs that a call wants of each queue. A queue that has given them gives no more while they are leased, so its delay does not matter.
const OF_EACH_QUEUE: u32 = 10;

/// What `/proc/PID/stat` counts CPU time in.
const TICKS_A_SECOND: f64 = 100.0;

#[derive(Serialize)]
struct Figures {
    server: String,
    urls: u64,
    hosts: u64,
    put: Phase,
    put_again: Phase,
    get: Phase,
    peak_rss_mb: Option<u64>,
    load: String,
}

#[derive(Serialize)]
struct Phase {
    urls: u64,
    seconds: f64,
    urls_per_s: f64,
    cpu_us_per_url: Option<f64>,
    rss_mb: Option<u64>,
}

pub(crate) fn run(arguments: &BenchFrontierServerArguments) -> Result<ExitCode, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(Failure::failed)?;
    let figures = runtime.block_on(measure(arguments))?;
    if arguments.json {
        let json = serde_json::to_string(&figures).map_err(Failure::failed)?;
        sayln!("{json}");
        return Ok(ExitCode::SUCCESS);
    }
    sayln!(
        "{}: {} URLs of {} hosts, {} streams, load {}",
        figures.server,
        figures.urls,
        figures.hosts,
        arguments.streams,
        figures.load
    );
    for (name, phase) in [
        ("put, new", &figures.put),
        ("put, known", &figures.put_again),
        ("get", &figures.get),
    ] {
        let cpu = phase.cpu_us_per_url;
        let rss = phase.rss_mb;
        sayln!(
            "{name:<11} {:>9} URLs in {:>7.1} s: {:>8.0} a second{}{}",
            phase.urls,
            phase.seconds,
            phase.urls_per_s,
            cpu.map_or_else(String::new, |us| format!(", {us:.1} µs CPU each")),
            rss.map_or_else(String::new, |mb| format!(", {mb} MB after it")),
        );
    }
    if let Some(peak) = figures.peak_rss_mb {
        sayln!("peak RSS    {peak} MB");
    }
    Ok(ExitCode::SUCCESS)
}

async fn measure(arguments: &BenchFrontierServerArguments) -> Result<Figures, Failure> {
    let address = ServerAddress {
        url: arguments.server.clone(),
        ..ServerAddress::default()
    };
    let mut client = address.client().map_err(Failure::usage)?;
    let told = |e: tonic::Status| Failure::failed(format!("{}: {e}", arguments.server));
    let clear = DeleteCrawlMessage {
        value: CRAWL.to_owned(),
        local: false,
    };
    client.delete_crawl(clear.clone()).await.map_err(told)?;
    let meter = Meter { pid: arguments.pid };
    let put = meter
        .phase(put_all(&client, arguments, arguments.urls))
        .await?;
    // A tenth of them again: the most frequent case in a crawl.
    let again = (arguments.urls / 10).max(1);
    let put_again = meter.phase(put_all(&client, arguments, again)).await?;
    let get = meter.phase(get_all(client.clone(), arguments)).await?;
    let figures = Figures {
        server: arguments.server.clone(),
        urls: arguments.urls,
        hosts: arguments.hosts,
        put,
        put_again,
        get,
        peak_rss_mb: meter.status_mb("VmHWM:"),
        load: load_average(),
    };
    if !arguments.keep {
        client.delete_crawl(clear).await.map_err(told)?;
    }
    Ok(figures)
}

/// Looks at the server's process, if it is on this machine.
struct Meter {
    pid: Option<u32>,
}

impl Meter {
    async fn phase(
        &self,
        work: impl Future<Output = Result<u64, Failure>>,
    ) -> Result<Phase, Failure> {
        let (begun, cpu) = (Instant::now(), self.cpu_s());
        let urls = work.await?;
        let seconds = begun.elapsed().as_secs_f64();
        let spent = self.cpu_s().zip(cpu).map(|(after, before)| after - before);
        Ok(Phase {
            urls,
            seconds,
            urls_per_s: urls as f64 / seconds,
            cpu_us_per_url: spent.map(|seconds| seconds * 1e6 / urls.max(1) as f64),
            rss_mb: self.status_mb("VmRSS:"),
        })
    }

    fn cpu_s(&self) -> Option<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid?)).ok()?;
        let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
        let ticks = |at: usize| fields.get(at)?.parse::<f64>().ok();
        Some((ticks(11)? + ticks(12)?) / TICKS_A_SECOND)
    }

    fn status_mb(&self, name: &str) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid?)).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        let kb: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
        Some(kb / 1024)
    }
}

/// The URL of a number. Neighbours are of different hosts, as in a crawl.
fn url(number: u64, hosts: u64) -> UrlInfo {
    let host = number % hosts;
    let page = number / hosts;
    UrlInfo {
        url: format!(
            "http://www.host-{host}.example/section/{}/page-{page}.html",
            page % 17
        ),
        crawl_id: CRAWL.to_owned(),
        ..UrlInfo::default()
    }
}

async fn put_all(
    client: &Client,
    arguments: &BenchFrontierServerArguments,
    urls: u64,
) -> Result<u64, Failure> {
    let (streams, hosts) = (arguments.streams, arguments.hosts);
    let mut puts = Vec::new();
    for stream in 0..streams {
        let mut client = client.clone();
        let server = arguments.server.clone();
        let numbers = (stream..urls).step_by(streams as usize);
        let count = numbers.clone().count() as u64;
        let items = numbers.map(move |number| UrlItem {
            item: Some(url_item::Item::Discovered(DiscoveredUrlItem {
                info: Some(url(number, hosts)),
            })),
            id: number.to_string(),
            creation_date: 0,
        });
        puts.push(tokio::spawn(async move {
            let failed = |e: tonic::Status| Failure::failed(format!("{server}: {e}"));
            let acks = client.put_ur_ls(tokio_stream::iter(items)).await;
            let mut acks = acks.map_err(failed)?.into_inner();
            let mut acknowledged = 0;
            while let Some(AckMessage { .. }) = acks.message().await.map_err(failed)? {
                acknowledged += 1;
            }
            match acknowledged == count {
                true => Ok(count),
                false => Err(Failure::failed(format!(
                    "{server} acknowledged {acknowledged} of {count} URLs"
                ))),
            }
        }));
    }
    let mut all = 0;
    for put in puts {
        all += put.await.map_err(Failure::failed)??;
    }
    Ok(all)
}

/// Call after call, one after the other, until as many have come as are wanted, or the time is up.
async fn get_all(
    mut client: Client,
    arguments: &BenchFrontierServerArguments,
) -> Result<u64, Failure> {
    let begun = Instant::now();
    let wanted = arguments.urls / 10;
    let mut got = 0;
    while got < wanted && begun.elapsed() < Duration::from_secs(arguments.get_s) {
        let asked = GetParams {
            max_urls_per_queue: OF_EACH_QUEUE,
            max_queues: 100,
            delay_requestable: 3_600,
            item: Some(get_params::Item::CrawlId(CRAWL.to_owned())),
            ..GetParams::default()
        };
        let failed = |e: tonic::Status| Failure::failed(format!("{}: {e}", arguments.server));
        let mut urls = client.get_ur_ls(asked).await.map_err(failed)?.into_inner();
        while urls.message().await.map_err(failed)?.is_some() {
            got += 1;
        }
    }
    Ok(got)
}
