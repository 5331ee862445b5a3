//! Through a proxy: whom it is asked for, and that private networks stay guarded.

mod harness;

use harness::proxy::lead_to;
use harness::recorder::{Asked, Place, Recorder, ok, record, status};
use harness::{Ran, ask, portolan, run};
use std::process::Command;

/// An address that only a proxy is asked for.
const PUBLIC: &str = "93.184.215.14";

fn site(asked: &Asked) -> Vec<u8> {
    match asked.path {
        "/robots.txt" => status("404 Not Found", "", b""),
        "/" => ok(
            "Content-Type: text/html\r\n",
            b"<a href=/page>1</a><a href=http://inner.test/>2</a><a href=http://127.0.0.1/secret>3</a><a href=http://localhost/>4</a>",
        ),
        path if path.starts_with("http://") => ok("Content-Type: text/html\r\n", b"<a href=/page>1</a>"),
        _ => ok("Content-Type: text/html\r\n", b"<p>a page"),
    }
}

/// A crawl of `http://a.test/` whose DNS says that a.test is public.
fn crawl(place: &Place, proxy: &[&str]) -> Command {
    let mut command = portolan();
    command
        .args([
            "crawl",
            "http://a.test/",
            "--delay",
            "0s",
            "--scope",
            "any",
            "--json",
        ])
        .args(["--wait", "3s", "--out"])
        .arg(place.out())
        .args(proxy);
    command
}

/// With names from a DNS server of the test's, so that no address is one that a person named.
fn with_dns(command: &mut Command, place: &Place) -> Ran {
    use harness::dns::{self, Says};
    let server = dns::serve(|name, _| match name {
        "a.test" => Says::At(PUBLIC.parse().expect("an address")),
        "inner.test" => Says::At([10, 0, 0, 7].into()),
        _ => Says::NoAddress,
    });
    let config = place.write("dns.toml", &format!("[dns]\nservers = [\"{server}\"]\n"));
    run(command.arg("--config").arg(config))
}

fn reason(place: &Place, url: &str) -> String {
    let story = ask(&place.out(), &["why", url, "--json"]).json();
    story["reason"].as_str().unwrap_or_default().to_owned()
}

fn paths(server: &Recorder) -> Vec<String> {
    let mut paths: Vec<String> = server.seen().into_iter().map(|seen| seen.path).collect();
    paths.sort();
    paths
}

#[test]
fn an_http_proxy_is_asked_for_addresses_and_never_for_private_ones() {
    let server = record(site);
    let proxy = lead_to(server.addr, Some("alice:p@ss"));
    let place = Place::new();
    let url = format!("http://alice:p%40ss@{}", proxy.addr);
    let ran = with_dns(&mut crawl(&place, &["--proxy", &url]), &place);
    let ran = ran.succeeded();
    let asked = proxy.asked();
    assert!(
        !asked.is_empty()
            && asked
                .iter()
                .all(|line| *line == format!("CONNECT {PUBLIC}:80")),
        "{asked:?}"
    );
    assert_eq!(paths(&server), ["/", "/page", "/robots.txt"]);
    assert!(
        server
            .seen()
            .iter()
            .all(|seen| seen.host == "a.test" && !seen.head.contains("Proxy"))
    );
    for url in ["http://inner.test/", "http://127.0.0.1/secret"] {
        assert_eq!(reason(&place, url), "private-address", "{url}");
    }
    let records = ask(&place.out(), &["warc list", "--json"]).out;
    assert!(!records.contains("p@ss") && !ran.err.contains("p@ss"));
}

#[test]
fn socks5_comes_from_the_environment_and_no_proxy_is_heeded() {
    let server = record(site);
    let proxy = lead_to(server.addr, Some("u:p"));
    let place = Place::new();
    let mut command = crawl(&place, &[]);
    command.env("all_proxy", format!("socks5://u:p@{}", proxy.addr));
    command.env("no_proxy", "inner.test");
    with_dns(&mut command, &place).succeeded();
    let asked = proxy.asked();
    assert!(
        !asked.is_empty()
            && asked
                .iter()
                .all(|line| *line == format!("SOCKS {PUBLIC}:80")),
        "{asked:?}"
    );
    assert_eq!(paths(&server), ["/", "/page", "/robots.txt"]);
    // Without the proxy a.test cannot be reached, and nothing of the environment stays behind.
    let mut resumed = portolan();
    resumed.args(["crawl", "--json", "--out"]).arg(place.out());
    let before = proxy.asked().len();
    run(resumed.args(["http://a.test/more", "--time-limit", "1s"]));
    assert_eq!(proxy.asked().len(), before);
}

#[test]
fn names_are_left_to_a_proxy_only_where_that_is_allowed() {
    let server = record(site);
    let proxy = lead_to(server.addr, None);
    let place = Place::new();
    let socks = format!("socks5h://{}", proxy.addr);
    let refused = run(&mut crawl(&place, &["--proxy", &socks]));
    assert_eq!(refused.code, Some(2), "{}", refused.err);
    assert!(refused.err.contains("--proxy-resolves"), "{}", refused.err);
    assert!(proxy.asked().is_empty());
    // Nobody here resolves anything: the name servers do not answer.
    let config = place.write(
        "none.toml",
        "[dns]\nservers = [\"127.0.0.1:9\"]\ntimeout_ms = 200\n",
    );
    let mut command = crawl(&place, &["--proxy", &socks, "--proxy-resolves"]);
    run(command.arg("--config").arg(&config)).succeeded();
    let asked = proxy.asked();
    assert!(asked.contains(&"SOCKS a.test:80".to_owned()), "{asked:?}");
    assert!(
        asked.contains(&"SOCKS inner.test:80".to_owned()),
        "{asked:?}"
    );
    assert!(
        !asked
            .iter()
            .any(|line| line.contains("127.0.0.1") || line.contains("localhost")),
        "{asked:?}"
    );
    for url in ["http://127.0.0.1/secret", "http://localhost/"] {
        assert_eq!(reason(&place, url), "private-address", "{url}");
    }
}

#[test]
fn an_http_proxy_that_resolves_names_is_given_plain_requests_whole() {
    let server = record(site);
    let proxy = lead_to(server.addr, None);
    let place = Place::new();
    let config = place.write(
        "none.toml",
        "[dns]\nservers = [\"127.0.0.1:9\"]\ntimeout_ms = 200\n",
    );
    let url = proxy.addr.to_string();
    let mut command = crawl(&place, &["--proxy", &url, "--proxy-resolves"]);
    run(command.arg("--config").arg(&config)).succeeded();
    let asked = proxy.asked();
    assert!(
        asked.contains(&"GET http://a.test/robots.txt".to_owned()),
        "{asked:?}"
    );
    assert!(
        asked.contains(&"GET http://a.test/page".to_owned()),
        "{asked:?}"
    );
    assert!(
        !asked.iter().any(|line| line.starts_with("CONNECT")),
        "{asked:?}"
    );
}

#[test]
fn no_proxy_of_the_environment_holds_for_any_proxy_unless_another_list_is_given() {
    let server = record(site);
    let proxy = lead_to(server.addr, None);
    let url = format!("socks5://{}", proxy.addr);
    let resolve = format!("a.test={}", server.addr);
    for (list, is_led) in [(None, false), (Some("b.test"), true)] {
        let place = Place::new();
        let mut command = crawl(&place, &["--proxy", &url, "--resolve", &resolve]);
        command.env("no_proxy", "a.test");
        if let Some(list) = list {
            command.args(["--no-proxy", list]);
        }
        let (before, pages) = (proxy.asked().len(), server.count("a.test", "/page"));
        // The names of other links have no address.
        run(&mut command);
        assert_eq!(server.count("a.test", "/page"), pages + 1);
        assert_eq!(proxy.asked().len() > before, is_led, "{list:?}");
    }
}
