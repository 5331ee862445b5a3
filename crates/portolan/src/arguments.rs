//! The command line. Names are a contract: scripts depend on them.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::RangedU64ValueParser;
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::arguments_access::AccessArguments;

/// The version, and the commit where it is known (see build.rs).
pub(crate) const VERSION: &str = env!("PORTOLAN_VERSION");

#[derive(Parser)]
#[command(
    name = "portolan",
    version = VERSION,
    about = "A polite, complete, parallel web crawler",
    after_help = "Examples:\n  \
        portolan demo                                   a crawl of a simulated Web, no network needed\n  \
        portolan crawl https://example.org/             one site into ./crawl\n  \
        portolan crawl --out crawl                      go on with it\n  \
        portolan status crawl                           how far it is\n  \
        portolan why crawl https://example.org/page     why was this fetched, or not\n\n\
        Be polite: set --contact to a URL or address where a server's operator can reach you."
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    Crawl(Box<CrawlArguments>),
    #[command(
        mut_arg("out", |arg| arg.hide(true)),
        mut_arg("seeds_file", |arg| arg.hide(true)),
        mut_arg("max_pages", |arg| arg.hide(true)),
        mut_arg("time_limit", |arg| arg.hide(true)),
        mut_arg("wait", |arg| arg.hide(true)),
        mut_arg("retry_failed", |arg| arg.hide(true)),
        mut_arg("new_session", |arg| arg.hide(true)),
        mut_arg("divide", |arg| arg.hide(true)),
        mut_arg("keep_fresh", |arg| arg.hide(true)),
        mut_arg("order", |arg| arg.hide(true)),
        mut_arg("frontier_server", |arg| arg.hide(true)),
        mut_arg("rate", |arg| arg.hide(true)),
        mut_arg("per_day", |arg| arg.hide(true)),
        mut_arg("connections", |arg| arg.hide(true)),
        mut_arg("threads", |arg| arg.hide(true)),
        mut_arg("quiet", |arg| arg.hide(true)),
        mut_arg("partitions", |arg| arg.hide(true)),
        mut_arg("mode", |arg| arg.hide(true)),
        mut_arg("seeds", |arg| arg.value_name("URL").required(true).num_args(1).help("The URL")),
        mut_arg("json", |arg| arg.help("Print one JSON object"))
    )]
    Fetch(Box<FetchArguments>),
    Status(StatusArguments),
    Sessions(SessionsArguments),
    Diff(DiffArguments),
    Freshness(crate::arguments_freshness::FreshnessArguments),
    Signal(crate::arguments_freshness::SignalArguments),
    Urls(UrlsArguments),
    Why(WhyArguments),
    Links(LinksArguments),
    Registry(crate::arguments_sailor::RegistryArguments),
    #[command(subcommand)]
    Warc(WarcCommand),
    Check(CheckArguments),
    Node(Box<crate::arguments_fleet::NodeArguments>),
    #[command(subcommand)]
    Fleet(crate::arguments_fleet_commands::FleetCommand),
    ServeFrontier(crate::arguments_frontier::ServeFrontierArguments),
    Augment(crate::arguments_augment::AugmentArguments),
    Config(ConfigArguments),
    Simulate(crate::arguments_simulate::SimulateArguments),
    Simweb(SimwebArguments),
    Demo(DemoArguments),
    #[command(subcommand)]
    Bench(BenchCommand),
    #[command(flatten)]
    Graph(crate::arguments_graph::GraphCommand),
    Completions(CompletionsArguments),
    Man(ManArguments),
}

/// Crawl from seed URLs into a directory, or go on with a crawl.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    portolan crawl https://example.org/ --contact mailto:me@example.net\n  \
    portolan crawl https://example.org/docs/ --scope prefix --max-pages 1000 --out docs\n  \
    portolan crawl --seeds-file seeds.txt --scope domain --time-limit 8h\n  \
    portolan crawl ftp://ftp.example.org/pub/ --scope prefix\n  \
    portolan crawl http://h0.sim.test/ --scope any --delay 0s --resolve '*.sim.test=127.0.0.1:8080'\n  \
    portolan crawl --out docs                 # docs holds a crawl: go on with it\n  \
    portolan crawl --out docs --retry-failed timeout,http-5xx\n  \
    portolan crawl --frontier-server http://127.0.0.1:7071 --scope any --out part   # fetch what a server grants\n\n\
  Crawl the same pages again, and see what has changed:\n\n\
    portolan crawl --out docs --new-session\n\
    portolan crawl --out docs --new-session --divide graph --order pagerank\n\
    portolan sessions docs\n\n\
  Keep what is known fresh until stopped, always the page that is worth most:\n\n\
    portolan crawl --out docs --keep-fresh --rate 50/s\n\
    portolan freshness docs\n\n\
    Ctrl-C once: finish what is under way, commit, report. Twice: stop now; nothing is lost.\n\n\
    Exit code: 0 in order, 1 if it failed or nothing at all could be fetched, 2 for bad input,\n\
    3 if it is not complete because URLs wait for hosts that fail.")]
pub(crate) struct CrawlArguments {
    /// Where to start: URLs (http:// is assumed where no scheme is given)
    #[arg(value_name = "SEED")]
    pub(crate) seeds: Vec<String>,
    /// The crawl's directory; if it holds a crawl, that crawl goes on, with these seeds too [default: ./crawl, unless it
    /// holds a crawl of other seeds]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// A settings file (TOML) with what differs from `portolan config`, or from the settings of the crawl
    /// that goes on
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// A file with one seed URL a line, or '-' for standard input. '#' at the start of a line or behind a space begins a
    /// comment
    #[arg(long, value_name = "FILE|-")]
    pub(crate) seeds_file: Option<PathBuf>,
    /// How far from the seeds to go [default: host]
    #[arg(long, value_enum)]
    pub(crate) scope: Option<ScopeArgument>,
    /// Only URLs that match one of these regular expressions
    #[arg(long, value_name = "REGEX")]
    pub(crate) include: Vec<String>,
    /// No URLs that match one of these regular expressions
    #[arg(long, value_name = "REGEX")]
    pub(crate) exclude: Vec<String>,
    /// Stop this run after N documents; 0 is no limit. The next run has a limit of its own, or none
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) max_pages: Option<u64>,
    /// Follow at most N links from a seed; 0 keeps to the seeds
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) max_depth: Option<u16>,
    /// With each page also what it needs to be shown, wherever that is: style sheets, images, scripts, fonts, frames. They
    /// are no link away from the page (settings content.embeds and scope.embeds_off_scope)
    #[arg(short, long)]
    pub(crate) page_requisites: bool,
    /// Read a document's table of links (.tol) before the document: where a site says that it has them, or also where one
    /// request to a site finds them (setting content.tol) [default: never]
    #[arg(long, value_enum, value_name = "WHEN")]
    pub(crate) tol: Option<TolArgument>,
    /// In a new session, fetch a document's table of volatile parts (.tvi) instead of the document (setting content.tvi)
    /// [default: never]
    #[arg(long, value_enum, value_name = "WHEN")]
    pub(crate) tvi: Option<TolArgument>,
    /// Stop this run after this time, such as 90s, 10m, 8h or 2d; 0 is no limit. It does not hold for the next run
    #[arg(long, value_name = "TIME", value_parser = parse_duration, allow_hyphen_values = true)]
    pub(crate) time_limit: Option<Duration>,
    /// Pause between requests to a host, such as 1s or 500ms; 0s only for your own servers [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, allow_hyphen_values = true)]
    pub(crate) delay: Option<Duration>,
    /// When nothing is left but hosts that fail or ask for a rest, wait this long for them [default: 5m]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, allow_hyphen_values = true)]
    pub(crate) wait: Option<Duration>,
    /// Ask again, now, for what failed: for all of it, or for these reasons (timeout,http-5xx, ...; see
    /// 'portolan status'). Hosts that fail need not rest any longer, unless they asked for it
    #[arg(long, value_name = "REASON", num_args = 0.., value_delimiter = ',')]
    pub(crate) retry_failed: Option<Vec<String>>,
    /// Crawl again what the crawl in DIR knows: pages that their servers say are unchanged are not sent once more. What was not
    /// finished of the session before becomes part of the new one
    #[arg(long)]
    pub(crate) new_session: bool,
    /// With --new-session: sort the queues by the ranks of the graph that was fetched so far. The first session's order is the setting
    /// frontier.order
    #[arg(long, value_enum, value_name = "ORDER", requires = "new_session")]
    pub(crate) order: Option<SessionOrder>,
    /// With --new-session: divide the sites anew among the partitions first, by a cut of the graph that was fetched so far (as much
    /// to fetch for each, few links between them), or by hash
    #[arg(long, value_enum, value_name = "BY", requires = "new_session")]
    pub(crate) divide: Option<DivideArgument>,
    /// Keep what the crawl in DIR knows fresh, without end: always the page that is worth most becomes due, by how often it
    /// changes, how old its copy is and how many pages link to it
    #[arg(long)]
    pub(crate) keep_fresh: bool,
    /// With --keep-fresh, URLs that become due: 50/s, 10/m, 2000/h or 1000000/d (setting freshness.fetches_per_s) [default: 1/s]
    #[arg(long, value_name = "N/s", value_parser = crate::arguments_freshness::parse_rate, requires = "keep_fresh", conflicts_with = "per_day")]
    pub(crate) rate: Option<f64>,
    /// The same a day
    #[arg(long, value_name = "N", requires = "keep_fresh", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) per_day: Option<u64>,
    /// Cut the Web into N partitions (setting registry.partitions) [default: four for each core; with --divide as many as
    /// there are]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) partitions: Option<u16>,
    /// What becomes of links to other partitions (setting partition.mode). Only to compare with: 'firewall' throws them away,
    /// and may miss most of the Web; 'cross-over' fetches pages SEVERAL TIMES, at the cost of their servers [default: exchange]
    #[arg(long, value_enum, value_name = "MODE")]
    pub(crate) mode: Option<ModeArgument>,
    /// Take the work from this URLFrontier server, as in http://127.0.0.1:7071: it says which URLs are fetched, and is told what they link to
    /// within the scope ([frontier_server] in the settings; 'portolan serve-frontier' is such a server)
    #[arg(long, value_name = "URL", conflicts_with_all = ["keep_fresh", "new_session"])]
    pub(crate) frontier_server: Option<String>,
    /// Requests under way at once, over all hosts [default: by the machine, at most 1024]
    #[arg(long, value_name = "N", value_parser = at_least_one(), allow_negative_numbers = true)]
    pub(crate) connections: Option<usize>,
    /// Worker threads [default: one for each core]
    #[arg(long, value_name = "N", value_parser = at_least_one(), allow_negative_numbers = true)]
    pub(crate) threads: Option<usize>,
    /// Answer DNS for matching hosts: '*.example.test=127.0.0.1:8080'
    #[arg(long, value_name = "PATTERN=ADDR[:PORT]")]
    pub(crate) resolve: Vec<String>,
    /// The whole User-Agent header
    #[arg(long, value_name = "S")]
    pub(crate) user_agent: Option<String>,
    /// How a server's operator reaches you: a URL or e-mail address
    #[arg(long, value_name = "S")]
    pub(crate) contact: Option<String>,
    /// Print one JSON object at the end on stdout
    #[arg(long)]
    pub(crate) json: bool,
    /// No progress and no report
    #[arg(long)]
    pub(crate) quiet: bool,
    /// Say more: hosts that fail, robots.txt that cannot be read, retries, checkpoints. -vv: every turn and every request, too
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// Say it in this file, which grows, and not on the terminal: as with -v, or as with -vv if that is given
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) access: AccessArguments,
}

/// Show what a crawl would do with one URL: what robots.txt says, the answer's head, its charset, its links and what would
/// become of each. Nothing is written to disk, and nothing else is fetched.
#[derive(Args)]
#[command(
    override_usage = "portolan fetch [OPTIONS] <URL>",
    after_help = "Examples:\n  \
    portolan fetch https://example.org/\n  \
    portolan fetch https://example.org/docs/ --scope prefix --exclude '/old/' --json\n  \
    portolan fetch https://example.org/private --anyway\n\n\
    It takes the options of 'portolan crawl' that say how to fetch and what to follow; the URL is the seed.\n\n\
    Exit code: 0 if a crawl would keep the answer or follow it, 1 if not."
)]
pub(crate) struct FetchArguments {
    #[command(flatten)]
    pub(crate) crawl: CrawlArguments,
    /// Ask even if robots.txt forbids it, for your own servers
    #[arg(long)]
    pub(crate) anyway: bool,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum TolArgument {
    Never,
    Told,
    Probe,
}

/// What becomes of links to other partitions.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum ModeArgument {
    /// Sent to the partition that owns them
    Exchange,
    /// All links go to a server, which says what to fetch
    Server,
    /// Thrown away: pages are missed. Only to compare with
    Firewall,
    /// Followed by whoever finds them: pages are fetched several times. Only to compare with
    CrossOver,
}

/// By what a new session divides the sites.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum DivideArgument {
    /// A cut of the graph of the pages that were fetched
    Graph,
    /// A hash of a site's name, as in a crawl that begins
    Hash,
}

/// What a new session's queues are sorted by.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum SessionOrder {
    /// PageRank
    Pagerank,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum ScopeArgument {
    /// The seeds' hosts
    Host,
    /// The seeds' registrable domains
    Domain,
    /// The seeds' directories
    Prefix,
    /// Wherever links lead
    Any,
}

/// How far a crawl is; works while it runs.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    portolan status crawl\n  \
    portolan status crawl --watch             # again every 2 s until the crawl has ended\n  \
    portolan status crawl --watch 30s --json  # one JSON object a line")]
pub(crate) struct StatusArguments {
    /// The crawl's directory
    pub(crate) dir: PathBuf,
    /// Look again after this time, until the crawl has ended [default: 2s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, num_args = 0..=1, default_missing_value = "2s")]
    pub(crate) watch: Option<Duration>,
    #[arg(long)]
    pub(crate) json: bool,
}

/// List the sessions of a crawl: documents, how many of them are new, changed and unchanged, what is gone, bytes saved.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    portolan crawl --out docs --new-session   # begin another one\n  \
    portolan sessions docs\n  \
    portolan sessions docs --json             # one JSON object a line")]
pub(crate) struct SessionsArguments {
    /// The crawl's directory
    pub(crate) dir: PathBuf,
    #[arg(long)]
    pub(crate) json: bool,
}

/// List what changed between two sessions of a crawl, or show the text of one page in both, side by side.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    portolan diff docs                        # the last two sessions\n  \
    portolan diff docs 1 3 --json             # one JSON object a line\n  \
    portolan diff docs --url https://example.org/news")]
pub(crate) struct DiffArguments {
    /// The crawl's directory
    pub(crate) dir: PathBuf,
    /// The earlier session [default: the one before the last]
    #[arg(value_name = "A", requires = "to")]
    pub(crate) from: Option<u32>,
    /// The later session [default: the last]
    #[arg(value_name = "B")]
    pub(crate) to: Option<u32>,
    /// The text of this page in both sessions, side by side; - and + mark lines of one of them
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<String>,
    #[arg(long)]
    pub(crate) json: bool,
}

/// Read every file of a crawl and say what is sound and what is damaged.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    portolan check crawl\n  \
    portolan check crawl --json               # one JSON object for each kind of file\n\n\
    Settings, logs, checkpoints, tables, WARC files and indexes are read to their ends and compared with their\n\
    checksums and with each other. Nothing is changed. Do this before a backup, and after a disk made trouble.\n\n\
    Exit code: 0 if everything is as it was written, 1 if something is damaged, 2 if there is no crawl or it is running.")]
pub(crate) struct CheckArguments {
    /// The crawl's directory
    pub(crate) dir: PathBuf,
    #[arg(long)]
    pub(crate) json: bool,
}

/// List the URLs of a crawl, sorted: state, reason, URL, status, type, depth, title.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    portolan urls crawl --state failed\n  \
    portolan urls crawl --state due --host www.example.org --json\n  \
    portolan urls crawl --format csv > urls.csv\n  \
    portolan urls crawl --format parquet --out urls.parquet\n\n\
    What does not fit in 64 MB of memory is sorted in temporary files, in the directory that TMPDIR names.")]
pub(crate) struct UrlsArguments {
    /// A crawl's directory, or a fleet's store (s3://BUCKET/PREFIX)
    pub(crate) dir: PathBuf,
    #[command(flatten)]
    pub(crate) wanted: WantedUrls,
}

/// Which URLs, and how they are written.
#[derive(Args)]
pub(crate) struct WantedUrls {
    #[arg(long, value_enum)]
    pub(crate) state: Option<StateArgument>,
    #[arg(long, value_name = "H")]
    pub(crate) host: Option<String>,
    /// How a row is written; all but text have further columns
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: UrlsFormat,
    /// The same as --format jsonl
    #[arg(long, conflicts_with = "format")]
    pub(crate) json: bool,
    /// Write to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum UrlsFormat {
    /// Columns between tabs, '-' where there is nothing
    Text,
    /// With a line of names
    Csv,
    /// One JSON object a line
    Jsonl,
    Parquet,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StateArgument {
    Visited,
    Due,
    Failed,
    Excluded,
}

/// Why a URL was fetched or not, when, where it was first found, its back-links, its place in the queue.
#[derive(Args)]
pub(crate) struct WhyArguments {
    pub(crate) dir: PathBuf,
    pub(crate) url: String,
    #[arg(long)]
    pub(crate) json: bool,
}

/// The link graph: from, to.
#[derive(Args)]
pub(crate) struct LinksArguments {
    pub(crate) dir: PathBuf,
    /// One JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Look into WARC files.
#[derive(Subcommand)]
pub(crate) enum WarcCommand {
    /// Check records, digests, framing and index; exit code 1 if anything is wrong
    Verify {
        /// WARC files, directories that hold some, or a fleet's store (s3://BUCKET/PREFIX)
        #[arg(required = true)]
        paths: Vec<PathBuf>,
        #[arg(long)]
        json: bool,
    },
    /// One line a record
    List {
        #[arg(required = true)]
        paths: Vec<PathBuf>,
        #[arg(long)]
        json: bool,
    },
    /// Print what is stored of a URL: the whole record, or what was served
    #[command(after_help = "Examples:\n  \
        portolan warc cat crawl --url https://example.org/ --payload > page.html\n  \
        portolan warc cat crawl --url https://example.org/          # with WARC and HTTP headers\n  \
        portolan warc cat crawl/archive/NAME.warc.gz --offset 1234")]
    Cat {
        /// A crawl's directory, a directory of WARC files, one file, or a fleet's store (s3://BUCKET/PREFIX)
        path: PathBuf,
        /// The response to this URL
        #[arg(long, value_name = "URL", required_unless_present = "offset")]
        url: Option<String>,
        /// Only what was served, without WARC and HTTP headers: encodings (gzip, br, chunked, ...) are undone, and of a
        /// copy the payload is taken from where it is stored
        #[arg(long)]
        payload: bool,
        /// Only what was served, byte by byte as it is stored: nothing is decoded, and a copy has no bytes
        #[arg(long)]
        raw: bool,
        /// The newest document at the URL as it is now: as stored, with the volatile parts (.tvi) that were fetched since
        #[arg(long, requires = "url", conflicts_with_all = ["raw", "payload"])]
        fresh: bool,
        /// The record that starts at this byte, as 'portolan warc list' tells it
        #[arg(long, value_name = "BYTE", conflicts_with = "url")]
        offset: Option<u64>,
    },
}

/// Print every setting with its default, unit and meaning, as valid TOML.
#[derive(Args)]
pub(crate) struct ConfigArguments {
    /// Print the settings as they are with this file instead
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

/// Print what a shell needs to complete commands and options.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    portolan completions bash > ~/.local/share/bash-completion/completions/portolan\n  \
    portolan completions zsh > ~/.zfunc/_portolan        # with fpath+=~/.zfunc before compinit\n  \
    portolan completions fish > ~/.config/fish/completions/portolan.fish")]
pub(crate) struct CompletionsArguments {
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

/// Print the manual page of the program or of one of its commands.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    portolan man | man -l -\n  \
    portolan man crawl | man -l -\n  \
    portolan man --out ~/.local/share/man/man1")]
pub(crate) struct ManArguments {
    /// The command, such as 'crawl' or 'warc cat'
    pub(crate) command: Vec<String>,
    /// Write the pages of all commands into this directory
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    pub(crate) out: Option<PathBuf>,
}

/// Serve a simulated Web and witness how it is treated.
#[derive(Args)]
#[command(after_help = "Example:\n  \
    portolan simweb --port 8080 --hosts 20 --pages 100 &\n  \
    portolan crawl http://h0.sim.test/ --scope any --delay 0s --resolve '*.sim.test=127.0.0.1:8080'\n  \
    curl http://127.0.0.1:8080/-/witness")]
pub(crate) struct SimwebArguments {
    /// Port on 127.0.0.1; 0: any free one
    #[arg(long, value_name = "P", default_value_t = 8080)]
    pub(crate) port: u16,
    #[command(flatten)]
    pub(crate) web: WebArguments,
}

/// What the simulated Web is like.
#[derive(Args, Clone)]
pub(crate) struct WebArguments {
    /// A ready-made Web: small, demo, bench or odd
    #[arg(long, value_name = "NAME", default_value = "demo")]
    pub(crate) preset: String,
    /// Number of hosts
    #[arg(long, value_name = "N")]
    pub(crate) hosts: Option<u32>,
    /// Pages a host, on average
    #[arg(long, value_name = "N")]
    pub(crate) pages: Option<u32>,
    /// The same seed gives the same Web
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Any parameter of the Web, as name=value; `--set help` lists them
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) set: Vec<String>,
    /// Server threads
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) server_threads: usize,
    /// Listen on N loopback addresses, from 127.0.0.1 on, as a Web on many machines does
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..))]
    pub(crate) addresses: u8,
}

/// Crawl a simulated Web inside this program, verify the archive, and say what was done.
#[derive(Args)]
pub(crate) struct DemoArguments {
    /// Where the crawl's files go; must not hold a crawl yet [default: a new directory ./demo-crawl]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Crawl it with N nodes, processes of their own, over a NATS server that is started here; one of the nodes is killed
    /// half-way, and its directory deleted
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(2..=16))]
    pub(crate) nodes: Option<u8>,
}

/// Measure this machine and this build.
#[derive(Subcommand)]
pub(crate) enum BenchCommand {
    Crawl(crate::arguments_bench::BenchCrawlArguments),
    Pace(crate::arguments_bench::BenchPaceArguments),
    Extract(crate::arguments_bench::BenchExtractArguments),
    Archive(crate::arguments_bench::BenchArchiveArguments),
    Graph(crate::arguments_graph::BenchGraphArguments),
    /// Feed the registry with links: CPU an observation, memory, bytes a URL
    Registry(BenchRegistryArguments),
    /// Take turns of many hosts: CPU for the next one
    Frontier(BenchFrontierArguments),
    FrontierServer(crate::arguments_bench::BenchFrontierServerArguments),
    Freshness(crate::arguments_bench::BenchFreshnessArguments),
    Adoption(crate::commands::bench_adoption::BenchAdoptionArguments),
    Session(crate::arguments_bench::BenchSessionArguments),
    Tol(crate::arguments_bench::BenchTolArguments),
}

#[derive(Args)]
pub(crate) struct BenchRegistryArguments {
    /// A quarter of them of new URLs; up to 1 M are compared with a model
    #[arg(long, value_name = "N", default_value_t = 10_000_000)]
    pub(crate) observations: u64,
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// At most N a second, as a crawl would bring them: shows whether it keeps up without making
    /// anybody wait [default: as many as there can be]
    #[arg(long, value_name = "N")]
    pub(crate) per_second: Option<u64>,
    /// Where the registry's files go [default: a temporary directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Only open what an earlier run left in --dir, and say how long that takes: kill that run first
    #[arg(long, requires = "dir")]
    pub(crate) reopen: bool,
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct BenchFrontierArguments {
    /// One row for each
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [1_000, 100_000, 1_000_000])]
    pub(crate) hosts: Vec<u64>,
    /// Due URLs of each host
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) urls: u64,
    /// URLs of each host that are visited first: a turn should cost the same afterwards
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) visited: u64,
    /// Turns of each kind that are measured
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub(crate) turns: u64,
    #[arg(long)]
    pub(crate) json: bool,
}

/// A number that may not be 0.
pub(crate) fn at_least_one() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..)
}

/// `1s`, `500ms`, `10m`, `8h`, `2d`, `1h30m`; a bare 0 is allowed.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    const HELP: &str = "write a number with a unit: 500ms, 1s, 10m, 8h or 2d";
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut total = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .ok_or(HELP)?;
        let (number, tail) = rest.split_at(digits);
        let unit_end = tail
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        let seconds = match unit {
            "ms" => 0.001,
            "s" => 1.0,
            "m" | "min" => 60.0,
            "h" => 3_600.0,
            "d" => 86_400.0,
            _ => return Err(HELP.into()),
        };
        let number: f64 = number.parse().map_err(|_| HELP)?;
        let part = Duration::try_from_secs_f64(number * seconds).map_err(|_| HELP)?;
        total = total.checked_add(part).ok_or(HELP)?;
        rest = tail;
    }
    if text.is_empty() {
        Err(HELP.into())
    } else {
        Ok(total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn durations_have_units() {
        assert_eq!(parse_duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_duration("1h30m"), Ok(Duration::from_secs(5_400)));
        assert_eq!(parse_duration("0s"), Ok(Duration::ZERO));
        assert_eq!(parse_duration("0"), Ok(Duration::ZERO));
        assert_eq!(parse_duration("1.5s"), Ok(Duration::from_millis(1_500)));
        for wrong in ["", "5", "s", "1x", "-1s", "1s2", "1e400s", "..s"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }
}
