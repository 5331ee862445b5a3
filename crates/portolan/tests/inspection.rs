//! Looking into a crawl: what `urls`, `why`, `links`, `graph` and `warc cat` tell, and what they say of half a crawl.

mod harness;

use harness::fixed::{gzip, page, serve_bytes};
use harness::{Ran, Site, ask, portolan, run, text};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;
use portolan_simweb::WebSpec;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const HOME: &str = "<title>Home, \"sweet\" home</title><a href=/moved>1</a> <a href=/copy>2</a> \
    <a href=/gone>3</a> <a href=/packed>4</a> <a href=http://elsewhere.test/>5</a>";
const PACKED: &str = "<title>Packed</title>a page that comes packed, once and again and again";

/// A crawl of one small site, with everything that there is to tell.
struct Crawled {
    out: PathBuf,
    _dir: TempDir,
}

fn crawled() -> Crawled {
    let server = serve_bytes(|path| {
        match path {
        "/" | "/copy" => page(HOME).into_bytes(),
        "/moved" => b"HTTP/1.1 301 Moved\r\nLocation: /packed?from=moved\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            .to_vec(),
        "/packed" | "/packed?from=moved" => {
            let body = gzip(PACKED.as_bytes());
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
                body.len()
            );
            [head.into_bytes(), body].concat()
        }
        _ => b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_vec(),
    }
    });
    let dir = TempDir::new().expect("a directory");
    let out = dir.path().join("crawl");
    let mut command = portolan();
    command
        .args(["crawl", "http://site.test/", "--delay", "0s", "--resolve"])
        .arg(format!("*={}", server.addr))
        .args(["--quiet", "--out"])
        .arg(&out);
    run(&mut command).succeeded();
    Crawled { out, _dir: dir }
}

impl Crawled {
    fn ask(&self, arguments: &[&str]) -> Ran {
        ask(&self.out, arguments)
    }

    fn payload(&self, path: &str, how: &str) -> Vec<u8> {
        let url = format!("http://site.test{path}");
        self.ask(&["warc cat", "--url", &url, how]).raw_out
    }
}

#[test]
fn urls_are_sorted_with_status_type_depth_and_title() {
    let crawl = crawled();
    let listed = crawl.ask(&["urls"]).out;
    let rows: Vec<Vec<&str>> = listed.lines().map(|l| l.split('\t').collect()).collect();
    let urls: Vec<&str> = rows.iter().map(|row| row[2]).collect();
    assert!(urls.is_sorted(), "{listed}");
    assert_eq!(urls.len(), 7, "{listed}");
    let row = |url: &str| rows.iter().find(|row| row[2] == url).expect(url);
    let title = "Home, \"sweet\" home";
    let home = [
        "visited",
        "-",
        "http://site.test/",
        "200",
        "text/html",
        "0",
        title,
    ];
    assert_eq!(*row("http://site.test/"), home);
    let gone = row("http://site.test/gone");
    assert_eq!(gone[..2], ["failed", "http-4xx"]);
    assert_eq!(gone[3..], ["404", "-", "1", "-"]);
    let away = row("http://elsewhere.test/");
    assert_eq!(away[..2], ["excluded", "scope"]);
    assert_eq!(away[3..], ["-", "-", "1", "-"]);
    assert_eq!(row("http://site.test/packed")[6], "Packed");
}

#[test]
fn urls_are_the_same_in_every_format() {
    let crawl = crawled();
    let json = crawl.ask(&["urls", "--json"]).json_lines();
    assert_eq!(crawl.ask(&["urls", "--format", "jsonl"]).json_lines(), json);
    let csv = crawl.ask(&["urls", "--format", "csv"]).out;
    let mut lines = csv.lines();
    let head = lines.next().expect("names");
    assert!(
        head.starts_with("url,state,reason,status,mime,depth,title,"),
        "{head}"
    );
    assert_eq!(lines.clone().count(), json.len());
    let home = lines
        .find(|line| line.starts_with("http://site.test/,"))
        .expect("home");
    let start = "http://site.test/,visited,,200,text/html,0,\"Home, \"\"sweet\"\" home\",";
    assert!(home.starts_with(start), "{home}");
    // To a file and to a pipe.
    let file = crawl.out.join("../urls.parquet");
    crawl.ask(&[
        "urls",
        "--format",
        "parquet",
        "--out",
        &file.to_string_lossy(),
    ]);
    let piped = crawl.ask(&["urls", "--format", "parquet"]).raw_out;
    assert_eq!(fs::read(&file).expect("a file"), piped);
    let reader = SerializedFileReader::new(fs::File::open(&file).expect("a file"));
    let reader = reader.expect("a Parquet file");
    let rows = reader.get_row_iter(None).expect("rows");
    let rows: Vec<_> = rows.map(|row| row.expect("a row")).collect();
    assert_eq!(rows.len(), json.len());
    for (row, json) in rows.iter().zip(&json) {
        assert_eq!(row.get_string(0).expect("a URL"), text(json, "url"));
        let status = row.get_long(3).ok();
        assert_eq!(status, json["status"].as_i64());
        let title = row.get_string(6).ok().map(String::as_str);
        assert_eq!(title, json["title"].as_str());
        let copy = row.get_bool(14).ok();
        assert_eq!(copy, json["duplicate"].as_bool());
    }
    let mut wrong = portolan();
    wrong
        .arg("urls")
        .arg(&crawl.out)
        .args(["--json", "--format", "csv"]);
    assert_eq!(run(&mut wrong).code, Some(2));
}

#[test]
fn why_names_files_and_targets_and_no_internals() {
    let crawl = crawled();
    let moved = crawl.ask(&["why", "http://site.test/moved"]).out;
    let target = "It redirects to http://site.test/packed?from=moved.";
    assert!(moved.contains(target), "{moved}");
    assert!(moved.contains("1 link from a seed"), "{moved}");
    let home = crawl.ask(&["why", "http://site.test/"]).out;
    let warcs = fs::read_dir(crawl.out.join("archive")).expect("an archive");
    let mut names = warcs.map(|warc| warc.expect("a file").file_name().into_string());
    let is_warc = |name: &String| name.ends_with(".warc.gz");
    let name = names
        .find_map(|name| name.ok().filter(is_warc))
        .expect("a WARC");
    assert!(
        home.contains(&format!("Archived in {name} at byte ")),
        "{home}"
    );
    for told in [&moved, &home] {
        for word in ["class", "partition", "file number"] {
            assert!(!told.contains(word), "{told}");
        }
    }
    let json = crawl
        .ask(&["why", "http://site.test/moved", "--json"])
        .json();
    assert_eq!(json["redirects_to"], "http://site.test/packed?from=moved");
    assert_eq!(json["warc_file"], name);
    assert!(json.get("class").is_none() && json.get("partition").is_none());
}

#[test]
fn a_payload_is_decoded_and_a_copy_is_followed() {
    let crawl = crawled();
    assert_eq!(crawl.payload("/packed", "--payload"), PACKED.as_bytes());
    // One of the two is a revisit of the other, and both are the same to a reader.
    let addresses = ["/packed", "/packed?from=moved", "/", "/copy"];
    let raw = addresses.map(|path| crawl.payload(path, "--raw"));
    assert_eq!(raw.iter().filter(|bytes| bytes.is_empty()).count(), 2);
    let stored = raw.iter().filter(|bytes| bytes.starts_with(&[0x1f, 0x8b]));
    assert_eq!(stored.count(), 1, "one is packed");
    assert_eq!(
        crawl.payload("/packed?from=moved", "--payload"),
        PACKED.as_bytes()
    );
    assert_eq!(crawl.payload("/copy", "--payload"), HOME.as_bytes());
    assert_eq!(crawl.payload("/", "--payload"), HOME.as_bytes());
    let help = run(portolan().args(["warc", "cat", "--help"]))
        .succeeded()
        .out;
    let (url, offset) = (help.find("--url <"), help.find("--offset <"));
    assert!(url.is_some() && url < offset, "{help}");
}

/// A plain WARC file as another crawler may write it: with its chunks, or only with the header that names them.
#[test]
fn payloads_of_other_crawlers_are_decoded_too() {
    let dir = TempDir::new().expect("a directory");
    let packed = gzip(b"hello, world");
    let (first, rest) = packed.split_at(7);
    let chunks = [
        format!("{:x}\r\n", first.len()).into_bytes(),
        first.to_vec(),
        b"\r\n".to_vec(),
        format!("{:x};note=1\r\n", rest.len()).into_bytes(),
        rest.to_vec(),
        b"\r\n0\r\n\r\n".to_vec(),
    ]
    .concat();
    for (number, body) in [chunks, packed.clone()].into_iter().enumerate() {
        let http =
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Encoding: gzip\r\n\r\n";
        let head = format!(
            "WARC/1.0\r\nWARC-Type: response\r\nWARC-Record-ID: <urn:uuid:0>\r\nWARC-Date: 2026-01-01T00:00:00Z\r\n\
             WARC-Target-URI: http://other.test/\r\nContent-Type: application/http;msgtype=response\r\nContent-Length: {}\r\n\r\n",
            http.len() + body.len()
        );
        let file = dir.path().join(format!("{number}.warc"));
        let bytes = [head.as_bytes(), http.as_bytes(), &body, b"\r\n\r\n"].concat();
        fs::write(&file, bytes).expect("a file");
        let url = ["--url", "http://other.test/"];
        let payload = ask(&file, &["warc cat", url[0], url[1], "--payload"]).raw_out;
        assert_eq!(payload, b"hello, world", "{number}");
        let raw = ask(&file, &["warc cat", url[0], url[1], "--raw"]).raw_out;
        assert_eq!(raw, body, "{number}");
    }
}

#[test]
fn graphs_keep_links_to_what_was_not_fetched_if_asked() {
    let crawl = crawled();
    let links = crawl.ask(&["links"]).out;
    assert!(
        links.contains("http://site.test/\thttp://elsewhere.test/\n"),
        "{links}"
    );
    assert!(!links.contains("DocId"), "{links}");
    let fetched = crawl.ask(&["graph", "--json"]);
    assert!(!fetched.err.contains("DocId"), "{}", fetched.err);
    let first = fetched
        .err
        .lines()
        .find(|line| line.contains("not fetched"));
    assert!(
        first.is_some_and(|line| line.contains("(first: http://")),
        "{}",
        fetched.err
    );
    let known = crawl.ask(&["graph", "--unfetched", "--json"]);
    let count = |ran: &Ran, key: &str| ran.json()[key].as_u64().expect("a number");
    assert_eq!(count(&known, "pages"), count(&fetched, "pages") + 2);
    assert!(count(&known, "links") > count(&fetched, "links"));
    let out = crawl.out.join("../exported");
    let to = out.to_string_lossy();
    crawl.ask(&[
        "export graph",
        "--unfetched",
        "--format",
        "tsv",
        "--out",
        &to,
    ]);
    let nodes = fs::read_to_string(out.join("nodes.tsv")).expect("nodes");
    assert!(nodes.contains("http://elsewhere.test/"), "{nodes}");
}

#[test]
fn half_a_crawl_is_told_in_a_sentence() {
    let site = Site::serve(WebSpec::small().with_hosts(1).with_pages_per_host(1));
    run(&mut site.crawl());
    let url = site.web.spec().home_url();
    let commands = [
        vec!["status"],
        vec!["urls"],
        vec!["why", &url],
        vec!["links"],
        vec!["graph"],
    ];
    let sentence = |words: &[&str]| -> String {
        let mut command = portolan();
        command.arg(words[0]).arg(site.out()).args(&words[1..]);
        let ran = run(&mut command);
        assert_eq!(ran.code, Some(2), "{words:?}: {}", ran.err);
        assert_eq!(ran.err.trim_end().lines().count(), 1, "{}", ran.err);
        assert!(!ran.err.contains("No such file"), "{}", ran.err);
        ran.err
    };
    // The registry is gone; then everything but the settings.
    fs::remove_dir_all(site.out().join("registry")).expect("a registry");
    for words in &commands {
        assert!(
            sentence(words).contains("put the registry back"),
            "{words:?}"
        );
    }
    for name in [
        "archive",
        "seen",
        "index",
        "index.cdxj",
        "report.json",
        "pauses",
    ] {
        let path = site.out().join(name);
        remove(&path);
    }
    for words in &commands {
        assert!(
            sentence(words).contains("stopped before it began"),
            "{words:?}"
        );
    }
}

fn remove(path: &Path) {
    let removed = match path.is_dir() {
        true => fs::remove_dir_all(path),
        false => fs::remove_file(path),
    };
    assert!(removed.is_ok() || !path.exists(), "{}", path.display());
}

/// The certificate of this Web is its own: not trusted, or trusted and not for that host.
#[test]
fn why_tells_what_is_wrong_with_a_certificate() {
    let mut spec = WebSpec::small().with_hosts(1).with_pages_per_host(1);
    spec.tls = true;
    let site = Site::serve(spec);
    let authority = site.path("authority.pem");
    let pem = site.server.certificate_pem().expect("a Web with TLS");
    fs::write(&authority, pem).expect("a file");
    let trusting = format!("[http]\nca_file = '{}'\n", authority.display());
    for (url, settings, wanted) in [
        ("https://h0.sim.test/", "", "signed its certificate itself"),
        (
            "https://other.example/",
            &trusting,
            "certificate is for another host",
        ),
    ] {
        let out = site.path(wanted);
        let config = site.config(settings);
        let mut command = portolan();
        command
            .args([
                "crawl",
                url,
                "--delay",
                "0s",
                "--wait",
                "2s",
                "--quiet",
                "--resolve",
            ])
            .arg(format!("*={}", site.server.addr()))
            .arg("--config")
            .arg(config)
            .arg("--out")
            .arg(&out);
        assert_eq!(run(&mut command).code, Some(3));
        let why = ask(&out, &["why", url]).out;
        assert!(why.contains(wanted), "{why}");
    }
}
