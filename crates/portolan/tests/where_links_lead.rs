//! Where links and redirects lead: never into the private network, not by name, number or redirect; and from a seed to the
//! host where the site lives.

mod harness;

use harness::fixed::{page, serve};
use harness::{Site, number, portolan, run, text};
use portolan_simweb::WebSpec;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::Ordering;

fn crawl(out: &PathBuf, seeds: &[&str], resolve: &[String]) -> Command {
    let mut command = portolan();
    command
        .arg("crawl")
        .args(seeds)
        .args(["--scope", "any", "--delay", "0s", "--json", "--out"])
        .arg(out);
    for rule in resolve {
        command.args(["--resolve", rule]);
    }
    command
}

#[test]
fn links_and_redirects_into_the_private_network_are_refused() {
    let site = Site::serve(WebSpec::small().with_hosts(1).with_pages_per_host(1));
    let secret = serve(|_| page("secret"));
    let at = secret.addr;
    // More than the failures in a row after which a host counts as down.
    let many: String = (0..12)
        .map(|n| format!("<a href='http://{at}/many-{n}'>n</a>"))
        .collect();
    let door = serve(move |path| match path {
        "/robots.txt" => {
            "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".into()
        }
        "/moved" => format!(
            "HTTP/1.1 302 Found\r\nLocation: http://{at}/by-redirect\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        ),
        _ => page(&format!(
            "<a href='http://{at}/by-link'>1</a> <a href='/moved'>2</a> <a href='http://localhost:{}/by-name'>3</a>\
             <a href='http://2130706433:{}/by-number'>4</a> <a href='http://[::ffff:127.0.0.1]:{}/mapped'>5</a> {many}",
            at.port(),
            at.port(),
            at.port()
        )),
    });
    let rule = [format!("public.example=127.0.0.1:{}", door.addr.port())];
    let out = site.path("refused");
    let report = run(&mut crawl(&out, &["http://public.example/"], &rule))
        .succeeded()
        .json();
    assert_eq!(number(&report, "pages"), 1, "{report}");
    assert_eq!(
        secret.connections.load(Ordering::SeqCst),
        0,
        "not even a connection"
    );
    let urls = harness::ask(&out, &["urls", "--json", "--state", "excluded"]).json_lines();
    let refused: Vec<&str> = urls
        .iter()
        .filter(|u| u["reason"] == "private-address")
        .map(|u| text(u, "url"))
        .collect();
    for name in ["by-link", "by-redirect", "by-name", "by-number", "mapped"] {
        assert!(
            refused.iter().any(|url| url.ends_with(name)),
            "{name}: {urls:?}"
        );
    }
    let many = refused.iter().filter(|url| url.contains("/many-")).count();
    assert_eq!(many, 12, "{urls:?}");
    // A person may name it, as a seed.
    let out = site.path("named");
    let seed = format!("http://{at}/");
    let report = run(&mut crawl(&out, &["http://public.example/", &seed], &rule))
        .succeeded()
        .json();
    assert!(number(&report, "pages") >= 2, "{report}");
    assert!(secret.connections.load(Ordering::SeqCst) > 0);
}

#[test]
fn a_seed_that_redirects_to_another_host_makes_it_a_seed() {
    let site = Site::serve(WebSpec::small().with_hosts(1).with_pages_per_host(1));
    let server = serve(|path| {
        match path {
        "/robots.txt" => "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".into(),
        "/" => "HTTP/1.1 301 Moved\r\nLocation: http://www.example.test/start\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".into(),
        "/start" => page("<a href=/inside>1</a> <a href='http://other.test/'>2</a>"),
        _ => page("inside"),
    }
    });
    let out = site.path("moved");
    let mut command = portolan();
    command
        .args([
            "crawl",
            "example.test",
            "--delay",
            "0s",
            "--json",
            "--resolve",
        ])
        .arg(format!("*={}", server.addr))
        .arg("--out")
        .arg(&out);
    let report = run(&mut command).succeeded().json();
    assert_eq!(number(&report, "pages"), 2, "{report}");
    let why = harness::ask(&out, &["why", "http://other.test/"]).out;
    assert!(why.contains("scope"), "{why}");
}
