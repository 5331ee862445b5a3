//! HTTP/1.1 and HTTP/2 over TLS: what ALPN picks, certificates good and bad, and keeping a
//! connection.

mod server;

use bytes::Bytes;
use portolan_model::{Reason, Truncation};
use portolan_net::{
    Certificate, Connection, Connector, Guard, HttpSettings, NetError, Origin, Request, Scheme,
    Version,
};
use rcgen::{
    BasicConstraints, Certificate as Certified, CertificateParams, CertifiedKey, IsCa, Issuer,
    KeyPair, date_time_ymd, generate_simple_self_signed,
};
use rustls::pki_types::PrivatePkcs8KeyDer;
use server::{fetch, get, here, settings};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

const HOST: &str = "tls.test";

struct TlsServer {
    port: u16,
    certificate_pem: String,
    connections: Arc<AtomicUsize>,
}

impl TlsServer {
    /// A server with a certificate of its own for `HOST` that offers the given protocols.
    async fn start(protocols: &[&str]) -> Self {
        Self::start_with(protocols, |stream| Box::pin(serve(stream))).await
    }

    /// The same with something else to do on each connection.
    async fn start_with(
        protocols: &[&str],
        serve: impl Fn(TlsStream<TcpStream>) -> Serving + Send + Sync + 'static,
    ) -> Self {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(vec![HOST.to_owned()]).unwrap();
        Self::start_as(cert, &signing_key, protocols, serve).await
    }

    /// The same with a certificate that a test made.
    async fn start_as(
        cert: Certified,
        signing_key: &KeyPair,
        protocols: &[&str],
        serve: impl Fn(TlsStream<TcpStream>) -> Serving + Send + Sync + 'static,
    ) -> Self {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![cert.der().clone()],
                PrivatePkcs8KeyDer::from(signing_key.serialize_der()).into(),
            )
            .unwrap();
        config.alpn_protocols = protocols.iter().map(|p| p.as_bytes().to_vec()).collect();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections = Arc::new(AtomicUsize::new(0));
        let counter = connections.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                counter.fetch_add(1, Ordering::Relaxed);
                if let Ok(stream) = acceptor.accept(stream).await {
                    tokio::spawn(serve(stream));
                }
            }
        });
        Self {
            port,
            certificate_pem: cert.pem(),
            connections,
        }
    }

    /// Settings that trust the server's certificate; the file must live as long.
    fn trusting(&self) -> (HttpSettings, tempfile::NamedTempFile) {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(self.certificate_pem.as_bytes()).unwrap();
        let settings = HttpSettings {
            ca_file: file.path().to_owned(),
            ..settings()
        };
        (settings, file)
    }

    async fn connect(&self, settings: &HttpSettings, host: &str) -> Result<Connection, NetError> {
        Connector::new(settings.clone(), Guard::default())
            .unwrap()
            .connect(&Origin::new(Scheme::Https, host, self.port), &here())
            .await
    }
}

type Serving = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

async fn serve(stream: TlsStream<TcpStream>) {
    if stream.get_ref().1.alpn_protocol() == Some(b"h2".as_slice()) {
        serve_h2(stream).await;
    } else {
        serve_h1(stream).await;
    }
}

async fn serve_h1(mut stream: TlsStream<TcpStream>) {
    loop {
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            match stream.read_u8().await {
                Ok(byte) => request.push(byte),
                Err(_) => return,
            }
        }
        if request.starts_with(b"GET /unclean ") {
            // Until close, and then the TCP connection ends without a word of TLS.
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nhello").await.ok();
            stream.flush().await.ok();
            stream.get_mut().0.shutdown().await.ok();
            return;
        }
        let answer = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
        stream.write_all(answer.as_bytes()).await.ok();
        stream.flush().await.ok();
    }
}

async fn serve_h2(stream: TlsStream<TcpStream>) {
    let Ok(mut connection) = h2::server::handshake(stream).await else {
        return;
    };
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        let path = request.uri().path().to_owned();
        if let Some(count) = path.strip_prefix("/interim/") {
            for _ in 0..count.parse().unwrap() {
                let hint = http::Response::builder().status(103).body(()).unwrap();
                respond.send_informational(hint).ok();
            }
        }
        if path == "/goaway" {
            connection.graceful_shutdown();
        }
        tokio::spawn(async move {
            let head = http::Response::builder()
                .status(if path == "/404" { 404 } else { 200 })
                .header("Content-Type", "text/plain")
                .header("x-path", &path)
                .header("x-eight", &b"caf\xe9"[..])
                .body(())
                .unwrap();
            if path == "/refused" {
                respond.send_reset(h2::Reason::REFUSED_STREAM);
                return;
            }
            if path == "/never" {
                std::future::pending::<()>().await;
            }
            if request.method() == http::Method::HEAD {
                respond.send_response(head, true).ok();
                return;
            }
            let Ok(mut body) = respond.send_response(head, false) else {
                return;
            };
            match path.as_str() {
                "/large" => send_much(&mut body, 5_000_000).await,
                "/stall" => {
                    body.send_data(Bytes::from_static(b"hello"), false).ok();
                    tokio::time::sleep(Duration::from_secs(5)).await;
                }
                "/cut" => {
                    body.send_data(Bytes::from_static(b"hello"), false).ok();
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    body.send_reset(h2::Reason::INTERNAL_ERROR);
                }
                _ => {
                    body.send_data(Bytes::from_static(b"hel"), false).ok();
                    body.send_data(Bytes::from_static(b"lo"), true).ok();
                }
            }
        });
    }
}

/// As much as the client's window allows, again and again.
async fn send_much(body: &mut h2::SendStream<Bytes>, mut left: usize) {
    while left > 0 {
        body.reserve_capacity(left.min(16_384));
        let Some(Ok(room)) = std::future::poll_fn(|cx| body.poll_capacity(cx)).await else {
            return;
        };
        let piece = room.min(left);
        left -= piece;
        if body.send_data(vec![b'x'; piece].into(), left == 0).is_err() {
            return;
        }
    }
}

#[tokio::test]
async fn http2_where_both_want_it() {
    let server = TlsServer::start(&["h2", "http/1.1"]).await;
    let (settings, _file) = server.trusting();
    let mut connection = server.connect(&settings, HOST).await.unwrap();
    assert!(connection.is_http2());
    assert_eq!(*connection.certificate(), Certificate::Valid);
    for path in ["/a?b=c", "/404", "/a"] {
        let response = get(&mut connection, path).await.unwrap();
        assert_eq!(response.status(), if path == "/404" { 404 } else { 200 });
        assert_eq!(response.version(), Version::Http2);
        assert_eq!(response.body, b"hello");
        assert_eq!(response.truncated, None);
        assert!(connection.reusable());
        let reason = if path == "/404" {
            "404 Not Found"
        } else {
            "200 OK"
        };
        let path_only = path.split('?').next().unwrap();
        let head = format!(
            "HTTP/1.1 {reason}\r\ncontent-type: text/plain\r\nx-path: {path_only}\r\nx-eight: caf"
        );
        let head = [head.as_bytes(), b"\xe9\r\n\r\n"].concat();
        assert_eq!(
            response.head.bytes().escape_ascii().to_string(),
            head.escape_ascii().to_string()
        );
        let sent = String::from_utf8(response.request_head.clone()).unwrap();
        assert!(sent.starts_with(&format!(
            "GET {path} HTTP/1.1\r\nHost: tls.test:{}\r\n",
            server.port
        )));
    }
    let response = fetch(&mut connection, &Request::head("/a")).await.unwrap();
    assert_eq!((response.status(), response.body.len()), (200, 0));
    assert!(connection.reusable());
    assert_eq!(server.connections.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn http2_limits_and_losses() {
    let server = TlsServer::start(&["h2"]).await;
    let (mut settings, _file) = server.trusting();
    let mut connection = server.connect(&settings, HOST).await.unwrap();

    // Over the limit: the stream is cut, the connection serves on.
    let response = get(&mut connection, "/large").await.unwrap();
    assert_eq!(response.truncated, Some(Truncation::Length));
    assert_eq!(response.body.len() as u64, settings.max_body_bytes);
    assert!(connection.reusable());
    assert_eq!(get(&mut connection, "/").await.unwrap().body, b"hello");

    let response = get(&mut connection, "/cut").await.unwrap();
    assert_eq!(response.truncated, Some(Truncation::Disconnect));
    assert_eq!(response.body, b"hello");

    settings.max_body_bytes = 10_000_000;
    settings.read_timeout_ms = 200;
    settings.first_byte_timeout_ms = 200;
    let mut connection = server.connect(&settings, HOST).await.unwrap();
    let response = get(&mut connection, "/large").await.unwrap();
    assert_eq!((response.truncated, response.body.len()), (None, 5_000_000));
    let response = get(&mut connection, "/stall").await.unwrap();
    assert_eq!(response.truncated, Some(Truncation::Time));
    assert_eq!(response.body, b"hello");
    assert!(!connection.reusable());

    let mut connection = server.connect(&settings, HOST).await.unwrap();
    let error = get(&mut connection, "/never").await.unwrap_err();
    assert_eq!(error.reason(), Reason::Timeout);
    assert!(!connection.reusable());

    let mut connection = server.connect(&settings, HOST).await.unwrap();
    let error = get(&mut connection, "/refused").await.unwrap_err();
    assert!(error.retry_on_new_connection(), "{error}");

    let mut connection = server.connect(&settings, HOST).await.unwrap();
    assert_eq!(
        get(&mut connection, "/goaway").await.unwrap().body,
        b"hello"
    );
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!connection.reusable());
    let error = get(&mut connection, "/").await.unwrap_err();
    assert!(error.retry_on_new_connection(), "{error}");
}

#[tokio::test]
async fn http11_where_one_of_them_does_not_want_http2() {
    for (protocols, http2) in [
        (&["http/1.1"][..], true),
        (&[][..], true),
        (&["h2", "http/1.1"][..], false),
    ] {
        let server = TlsServer::start(protocols).await;
        let (settings, _file) = server.trusting();
        let settings = HttpSettings { http2, ..settings };
        let mut connection = server.connect(&settings, HOST).await.unwrap();
        assert!(!connection.is_http2());
        for path in ["/1", "/2", "/3"] {
            let response = get(&mut connection, path).await.unwrap();
            assert_eq!(
                (response.version(), &*response.body),
                (Version::Http11, &b"hello"[..])
            );
            assert!(connection.reusable());
        }
        assert_eq!(server.connections.load(Ordering::Relaxed), 1);
        let response = get(&mut connection, "/unclean").await.unwrap();
        assert_eq!((response.truncated, &*response.body), (None, &b"hello"[..]));
        let oddities: Vec<_> = response.oddities.iter().map(|o| o.name()).collect();
        assert_eq!(oddities, ["no-close-notify"]);
    }
}

#[tokio::test]
async fn bad_certificates_are_refused_or_recorded() {
    let server = TlsServer::start(&["http/1.1"]).await;
    let error = server.connect(&settings(), HOST).await.err().unwrap();
    assert_eq!(error.reason(), Reason::TlsSelfSigned, "{error}");
    assert!(error.to_string().contains(HOST), "{error}");

    let (trusting, _file) = server.trusting();
    let error = server.connect(&trusting, "other.test").await.err().unwrap();
    assert_eq!(error.reason(), Reason::TlsWrongHost, "{error}");

    let lenient = HttpSettings {
        accept_invalid_certificates: true,
        ..settings()
    };
    let mut connection = server.connect(&lenient, HOST).await.unwrap();
    assert_eq!(get(&mut connection, "/").await.unwrap().body, b"hello");
    let Certificate::Invalid(why) = connection.certificate() else {
        panic!("{:?}", connection.certificate());
    };
    assert!(why.contains("UnknownIssuer"), "{why}");

    // Lenient does not mean blind: a good certificate is recorded as such.
    let both = HttpSettings {
        accept_invalid_certificates: true,
        ..trusting
    };
    let connection = server.connect(&both, HOST).await.unwrap();
    assert_eq!(*connection.certificate(), Certificate::Valid);
    let connection = server.connect(&both, "other.test").await.unwrap();
    assert!(matches!(connection.certificate(), Certificate::Invalid(_)));
}

/// An authority that a test trusts, its certificate as PEM, and a server with a certificate of it for `host`.
async fn authority_and_server(
    host: &str,
    change: impl Fn(&mut CertificateParams),
) -> (tempfile::NamedTempFile, TlsServer) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = params.self_signed(&key).unwrap();
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(authority.pem().as_bytes()).unwrap();
    let issuer = Issuer::new(params, key);
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec![host.to_owned()]).unwrap();
    // A name of its own: else it would seem to be for whom it is by.
    params.distinguished_name = rcgen::DistinguishedName::new();
    let name = rcgen::DnType::CommonName;
    params.distinguished_name.push(name, host);
    change(&mut params);
    let cert = params.signed_by(&key, &issuer).unwrap();
    let serving = |stream| -> Serving { Box::pin(serve(stream)) };
    let server = TlsServer::start_as(cert, &key, &["http/1.1"], serving).await;
    (file, server)
}

#[tokio::test]
async fn what_is_wrong_with_a_certificate_is_told() {
    let nothing = |_: &mut CertificateParams| {};
    let past = |params: &mut CertificateParams| {
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2021, 1, 1);
    };
    let future = |params: &mut CertificateParams| params.not_before = date_time_ymd(4000, 1, 1);
    let (authority, sound) = authority_and_server(HOST, nothing).await;
    let trusting = |file: &tempfile::NamedTempFile| HttpSettings {
        ca_file: file.path().to_owned(),
        ..settings()
    };
    assert!(sound.connect(&trusting(&authority), HOST).await.is_ok());
    let reason = async |server: &TlsServer, settings: &HttpSettings, host| {
        let error = server.connect(settings, host).await.err().unwrap();
        error.reason()
    };
    let wrong_host = reason(&sound, &trusting(&authority), "other.test").await;
    assert_eq!(wrong_host, Reason::TlsWrongHost);
    // Signed, but by nobody who is known here.
    let stranger = reason(&sound, &settings(), HOST).await;
    assert_eq!(stranger, Reason::TlsUnknownIssuer);
    let (authority, expired) = authority_and_server(HOST, past).await;
    let expired = reason(&expired, &trusting(&authority), HOST).await;
    assert_eq!(expired, Reason::TlsExpired);
    let (authority, early) = authority_and_server(HOST, future).await;
    let early = reason(&early, &trusting(&authority), HOST).await;
    assert_eq!(early, Reason::TlsExpired);
}

#[tokio::test]
async fn what_is_not_tls_is_said_so() {
    let script = vec![server::send("HTTP/1.1 400 This is plain\r\n\r\n")];
    let server = server::Server::start(vec![script]).await;
    let origin = Origin::new(Scheme::Https, HOST, server.port);
    let error = server::connector(&settings())
        .connect(&origin, &here())
        .await
        .err()
        .unwrap();
    assert_eq!(error.reason(), Reason::Tls, "{error}");
}

#[test]
fn a_bad_ca_file_is_named() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    for content in [
        "",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    ] {
        file.write_all(content.as_bytes()).unwrap();
        let settings = HttpSettings {
            ca_file: file.path().to_owned(),
            ..settings()
        };
        let error = Connector::new(settings, Guard::default()).err().unwrap();
        assert!(
            error
                .to_string()
                .contains(&file.path().display().to_string()),
            "{error}"
        );
    }
    let settings = HttpSettings {
        ca_file: "/nowhere/ca.pem".into(),
        ..settings()
    };
    assert!(Connector::new(settings, Guard::default()).is_err());
}

#[tokio::test]
async fn http2_interim_answers_are_bounded() {
    let server = TlsServer::start(&["h2"]).await;
    let (settings, _file) = server.trusting();
    let mut connection = server.connect(&settings, HOST).await.unwrap();
    let response = get(&mut connection, "/interim/16").await.unwrap();
    assert_eq!((response.status(), &*response.body), (200, &b"hello"[..]));
    assert!(connection.reusable());
    let error = get(&mut connection, "/interim/17").await.unwrap_err();
    assert_eq!(error.reason(), Reason::BrokenHttp);
    assert!(error.to_string().contains("interim"), "{error}");
    assert!(!connection.reusable());
}

/// Speaks just enough HTTP/2 to answer, then sends frames that mean nothing for ever.
async fn serve_endless_frames(mut stream: TlsStream<TcpStream>, answers_first: bool) {
    const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
    const SETTINGS_ACK: &[u8] = &[0, 0, 0, 4, 1, 0, 0, 0, 0];
    // `:status: 200` is number 8 of the static table.
    const HEAD: &[u8] = &[0, 0, 1, 1, 4, 0, 0, 0, 1, 0x88];
    let mut some = [0; 1024];
    let _ = stream.read(&mut some).await;
    let _ = stream.write_all(&[SETTINGS, SETTINGS_ACK].concat()).await;
    let _ = stream.flush().await;
    // The request.
    let _ = stream.read(&mut some).await;
    if answers_first {
        let _ = stream.write_all(HEAD).await;
    }
    let mut unknown = vec![0, 0x40, 0, 0xfa, 0, 0, 0, 0, 0];
    unknown.resize(9 + 0x4000, 0);
    while stream.write_all(&unknown).await.is_ok() {}
}

#[tokio::test]
async fn http2_frames_are_bounded_as_bodies_are() {
    for answers_first in [true, false] {
        let server = TlsServer::start_with(&["h2"], move |stream| {
            Box::pin(serve_endless_frames(stream, answers_first))
        })
        .await;
        let (mut settings, _file) = server.trusting();
        settings.request_timeout_ms = 60_000;
        settings.first_byte_timeout_ms = 60_000;
        settings.read_timeout_ms = 60_000;
        let mut connection = server.connect(&settings, HOST).await.unwrap();
        let result = get(&mut connection, "/").await;
        assert!(!connection.reusable());
        if answers_first {
            let response = result.unwrap();
            assert_eq!(response.truncated, Some(Truncation::Length));
            let oddities: Vec<_> = response.oddities.iter().map(|o| o.name()).collect();
            assert_eq!(oddities, ["too-much-framing"]);
            assert!(response.wire_bytes > 2 * settings.max_body_bytes);
            assert!(response.wire_bytes < 8_000_000, "{}", response.wire_bytes);
        } else {
            let error = result.unwrap_err();
            assert_eq!(error.reason(), Reason::BrokenHttp, "{error}");
        }
    }
}

#[tokio::test]
async fn http2_counts_what_came_on_the_wire() {
    let server = TlsServer::start(&["h2"]).await;
    let (settings, _file) = server.trusting();
    let mut connection = server.connect(&settings, HOST).await.unwrap();
    let response = get(&mut connection, "/a").await.unwrap();
    // Two data frames with heads of nine bytes each, and the answer's own frame.
    assert!(
        response.wire_bytes > 5 + 2 * 9 + 9,
        "{}",
        response.wire_bytes
    );
    assert!(response.wire_bytes < 1_000, "{}", response.wire_bytes);
    let response = get(&mut connection, "/a").await.unwrap();
    assert!(response.wire_bytes < 200, "{}", response.wire_bytes);
}
