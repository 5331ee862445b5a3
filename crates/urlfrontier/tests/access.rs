//! Who may call: TLS, the token, and plain text only where it stays on the machine.

mod harness;

use harness::*;
use portolan_urlfrontier::api::Local;
use portolan_urlfrontier::{FrontierError, ServerAddress, serve};
use tonic::Code;

#[tokio::test]
async fn calls_bring_the_token_over_tls() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let dir = tempfile::tempdir().expect("a directory");
    let mut options = options(dir.path());
    options.tls = Some((certificate.clone().into_bytes(), key.into_bytes()));
    options.token = Some("sesame".to_owned());
    let (address, _stop, _serving) = serve_here(options).await;
    let calling = |token: Option<&str>, scheme: &str| ServerAddress {
        url: format!("{scheme}://localhost:{}", address.port()),
        ca: Some(certificate.clone().into_bytes()),
        token: token.map(ToOwned::to_owned),
        insecure: false,
    };
    let call = async |address: ServerAddress| {
        let mut client = address.client().expect("a client");
        client.get_active(Local::default()).await
    };
    let state = call(calling(Some("sesame"), "https"))
        .await
        .expect("a state");
    assert!(state.into_inner().state);
    for token in [None, Some("sesame2"), Some("sesam"), Some("sesbme")] {
        let refused = call(calling(token, "https")).await.expect_err("no state");
        assert_eq!(refused.code(), Code::Unauthenticated, "{token:?}");
    }
    call(calling(Some("sesame"), "http"))
        .await
        .expect_err("plain text");
    let mut stranger = calling(Some("sesame"), "https");
    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("another");
    stranger.ca = Some(other.cert.pem().into_bytes());
    call(stranger).await.expect_err("another certificate");
}

#[tokio::test]
async fn plain_text_stays_on_the_machine_unless_it_is_allowed() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut everywhere = options(dir.path());
    everywhere.listen = "0.0.0.0:0".parse().expect("an address");
    let refused = serve(everywhere, std::future::pending(), |_, _| {}).await;
    let why = refused.expect_err("plain text");
    assert!(matches!(why, FrontierError::PlainText(_)), "{why}");
    let mut allowed = options(dir.path());
    allowed.listen = "0.0.0.0:0".parse().expect("an address");
    allowed.insecure = true;
    serve(allowed, std::future::ready(()), |_, _| {})
        .await
        .expect("an end in order");

    let server = |url: &str, insecure| {
        let address = ServerAddress {
            url: url.to_owned(),
            insecure,
            ..ServerAddress::default()
        };
        address.client().map(drop)
    };
    for url in ["http://127.0.0.1:1", "http://[::1]:1", "http://localhost:1"] {
        server(url, false).expect("a client");
    }
    server("http://192.0.2.1:1", true).expect("a client");
    for url in [
        "http://192.0.2.1:1",
        "https://192.0.2.1:1",
        "192.0.2.1",
        "ftp://localhost/",
        "",
    ] {
        let refused = server(url, false).expect_err(url);
        assert!(matches!(refused, FrontierError::Input(_)), "{refused}");
    }
}

#[tokio::test]
async fn a_frontier_is_opened_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let (_address, _stop, _serving) = serve_here(options(dir.path())).await;
    let second = serve(options(dir.path()), std::future::pending(), |_, _| {}).await;
    assert!(matches!(second, Err(FrontierError::Store { .. })));
}
