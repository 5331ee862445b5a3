//! The same seed gives the same bytes, another seed others; TLS carries the same pages.

mod client;

use client::{get, serve};
use portolan_simweb::{Server, ServerOptions, SpecError, StopHandle, TruthQuery, Web, WebSpec};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

fn small(spec: WebSpec) -> WebSpec {
    spec.with_hosts(12).with_pages_per_host(20)
}

#[test]
fn the_seed_decides_everything() {
    let query = TruthQuery {
        digests: true,
        images: true,
        nofollow: true,
        ..TruthQuery::default()
    };
    for preset in ["small", "demo", "bench", "odd"] {
        let spec = small(WebSpec::preset(preset).expect("a preset"));
        let truth = |spec: WebSpec| Web::new(spec).expect("sound").truth(&query);
        assert_eq!(truth(spec.clone()), truth(spec.clone()), "{preset}");
        assert_ne!(truth(spec.clone()), truth(spec.with_seed(99)), "{preset}");
    }
}

#[test]
fn the_wire_carries_the_same_bytes() {
    let spec = small(WebSpec::demo()).with_latency_ms(0.0);
    let (one, two) = (serve(spec.clone()), serve(spec));
    let truth = one.web().truth(&TruthQuery::default());
    let mut compared = 0;
    for url in truth.requested() {
        let (host, target) = one.web().locate(url).expect("of this Web");
        let name = one.web().host_name(host);
        let (a, b) = (
            get(one.addr(), &name, target),
            get(two.addr(), &name, target),
        );
        assert!(a.raw == b.raw, "{url}");
        compared += 1;
    }
    println!("{compared} answers compared");
    assert!(compared > 100);
}

#[test]
fn the_bench_is_what_it_says() {
    let web = Web::new(WebSpec::bench().with_hosts(20)).expect("sound");
    let truth = web.truth(&TruthQuery {
        digests: true,
        ..TruthQuery::default()
    });
    assert_eq!(truth.documents().len(), 20 * 500);
    let bytes: u64 = truth
        .urls
        .values()
        .filter_map(|t| t.body.as_ref())
        .map(|b| b.bytes)
        .sum();
    let mean = bytes / truth.urls.len() as u64;
    assert!((21_000..22_000).contains(&mean), "{mean}");
    assert_eq!(
        (
            truth.duplicates(),
            truth.errors().len(),
            truth.forbidden().len()
        ),
        (0, 0, 0)
    );
}

#[test]
fn skew_makes_sizes_differ_and_keeps_the_mean() {
    let spec = WebSpec {
        hosts: 2_000,
        pages_per_host: 50,
        skew: 0.5,
        ..WebSpec::default()
    };
    let web = Web::new(spec).expect("sound");
    let mean = web.page_count() / 2_000;
    assert!((40..65).contains(&mean), "{mean}");
}

#[test]
fn specs_out_of_range_are_refused_by_name() {
    let refused = |spec: WebSpec| Web::new(spec).err().expect("refused").to_string();
    assert!(refused(WebSpec::small().with_hosts(0)).starts_with("hosts is 0"));
    let mut spec = WebSpec::small();
    spec.content.gzip_share = f64::NAN;
    assert!(refused(spec).starts_with("content.gzip_share is NaN"));
    assert!(
        refused(WebSpec {
            suffix: "Sim Test".into(),
            ..WebSpec::small()
        })
        .contains("Sim Test")
    );
    assert_eq!(
        WebSpec::preset("huge"),
        Err(SpecError::NoSuchPreset("huge".into()))
    );
    let text = serde_json::to_string(&WebSpec::odd()).expect("JSON");
    assert_eq!(
        serde_json::from_str::<WebSpec>(&text).expect("a spec"),
        WebSpec::odd()
    );
    assert_eq!(
        serde_json::from_str::<WebSpec>("{}").expect("defaults"),
        WebSpec::default()
    );
}

#[test]
fn tls_carries_the_same_pages() {
    let spec = WebSpec {
        tls: true,
        ..WebSpec::small()
    };
    let web = Arc::new(Web::new(spec).expect("sound"));
    let options = ServerOptions {
        tls: true,
        ..ServerOptions::default()
    };
    let server = Server::start_with(web, &options).expect("started");
    let pem = server.certificate_pem().expect("a certificate");
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(pem.as_bytes()).expect("PEM"))
        .expect("trusted");
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let raw = runtime.block_on(async {
        let stream = tokio::net::TcpStream::connect(server.addr())
            .await
            .expect("connected");
        let name = ServerName::try_from("h0.sim.test").expect("a name");
        let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
        let mut stream = connector.connect(name, stream).await.expect("a handshake");
        stream
            .write_all(b"GET / HTTP/1.1\r\nHost: h0.sim.test\r\nConnection: close\r\n\r\n")
            .await
            .expect("sent");
        let mut raw = Vec::new();
        // The server closes without close_notify, as many do.
        let _ = stream.read_to_end(&mut raw).await;
        raw
    });
    let reply = client::parse(raw);
    assert_eq!(reply.status, 200);
    assert!(reply.text().contains("https://h"), "links say https");
    let stated: usize = reply
        .header("content-length")
        .and_then(|l| l.parse().ok())
        .expect("a length");
    assert_eq!(reply.body.len(), stated);
}

#[test]
fn run_says_how_to_crawl_and_what_was_seen() {
    let stop = StopHandle::new();
    let ender = stop.clone();
    let thread = std::thread::spawn(move || {
        let mut out = Vec::new();
        let report =
            portolan_simweb::run(WebSpec::small(), &ServerOptions::default(), &stop, &mut out);
        (report.expect("ran"), String::from_utf8(out).expect("text"))
    });
    ender.stop();
    let (report, text) = thread.join().expect("ended");
    assert_eq!(report.requests, 0);
    assert!(
        text.contains(
            "portolan crawl http://h0.sim.test/ --scope any --resolve '*.sim.test=127.0.0.1:"
        ),
        "{text}"
    );
    assert!(text.contains("Nothing to complain of"));
}
