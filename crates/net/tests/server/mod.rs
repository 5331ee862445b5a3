//! A server that does exactly what a script says, and a client to ask it.
#![allow(dead_code)] // Each test binary uses its own part of it.

use portolan_net::{
    Connection, Connector, Guard, HttpSettings, NetError, Origin, Request, Resolved, Response,
    Scheme,
};
use std::net::{IpAddr, Ipv4Addr};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What the server does on a connection, in this order. After the last step it closes.
#[derive(Debug, Clone)]
pub enum Step {
    /// Read a request, up to its blank line.
    Request,
    Send(Vec<u8>),
    Wait(u64),
    /// Send the bytes one by one with a pause after each.
    Drip(Vec<u8>, u64),
    /// Send these bytes again and again until the client goes away.
    Endless(Vec<u8>),
    /// End the connection with a reset.
    Reset,
    /// Keep it open and silent until the client goes away.
    Hold,
}

pub fn send(bytes: impl AsRef<[u8]>) -> Step {
    Step::Send(bytes.as_ref().to_vec())
}

pub struct Server {
    pub port: u16,
    /// All bytes that clients sent, by connection.
    pub received: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Server {
    /// Each script serves one connection.
    pub async fn start(scripts: Vec<Vec<Step>>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let received = Arc::new(Mutex::new(Vec::new()));
        let log = received.clone();
        tokio::spawn(async move {
            for (number, script) in scripts.into_iter().enumerate() {
                let Ok((stream, _)) = listener.accept().await else {
                    return;
                };
                log.lock().unwrap().push(Vec::new());
                tokio::spawn(play(stream, script, log.clone(), number));
            }
        });
        Self { port, received }
    }

    pub fn requests(&self) -> Vec<String> {
        let received = self.received.lock().unwrap();
        received
            .iter()
            .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
            .collect()
    }

    pub fn origin(&self) -> Origin {
        Origin::new(Scheme::Http, "odd.test", self.port)
    }

    pub async fn connect(&self, settings: &HttpSettings) -> Connection {
        connector(settings)
            .connect(&self.origin(), &here())
            .await
            .unwrap()
    }
}

async fn play(
    mut stream: TcpStream,
    script: Vec<Step>,
    log: Arc<Mutex<Vec<Vec<u8>>>>,
    number: usize,
) {
    // The client may leave at any time; then the rest of the script has no audience.
    for step in script {
        let done = match step {
            Step::Request => read_request(&mut stream, &log, number).await,
            Step::Send(bytes) => stream.write_all(&bytes).await.is_ok(),
            Step::Wait(ms) => {
                tokio::time::sleep(Duration::from_millis(ms)).await;
                true
            }
            Step::Drip(bytes, pause_ms) => {
                for byte in bytes {
                    if stream.write_all(&[byte]).await.is_err() {
                        return;
                    }
                    tokio::time::sleep(Duration::from_millis(pause_ms)).await;
                }
                true
            }
            Step::Endless(bytes) => loop {
                if stream.write_all(&bytes).await.is_err() {
                    return;
                }
            },
            Step::Reset => {
                stream.set_zero_linger().unwrap();
                return;
            }
            Step::Hold => {
                let mut rest = Vec::new();
                stream.read_to_end(&mut rest).await.is_ok()
            }
        };
        if !done {
            return;
        }
    }
    // Close the sending side first, so that unread bytes cause no reset.
    stream.shutdown().await.ok();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.ok();
}

async fn read_request(stream: &mut TcpStream, log: &Mutex<Vec<Vec<u8>>>, number: usize) -> bool {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => request.push(byte),
            Err(_) => return false,
        }
    }
    log.lock().unwrap()[number].extend_from_slice(&request);
    true
}

pub fn connector(settings: &HttpSettings) -> Connector {
    Connector::new(settings.clone(), Guard::default()).unwrap()
}

pub fn here() -> Resolved {
    Resolved {
        addresses: vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
        port_override: None,
        expires_ms: u64::MAX,
        named: true,
    }
}

/// Short limits, so that slowness shows soon.
pub fn settings() -> HttpSettings {
    HttpSettings {
        connect_timeout_ms: 5_000,
        first_byte_timeout_ms: 2_000,
        read_timeout_ms: 2_000,
        request_timeout_ms: 4_000,
        max_head_bytes: 16 * 1024,
        max_body_bytes: 100_000,
        ..HttpSettings::default()
    }
}

pub async fn get(connection: &mut Connection, path: &str) -> Result<Response, NetError> {
    fetch(connection, &Request::get(path)).await
}

/// Fetch, and check that the sink saw what the body is.
pub async fn fetch(
    connection: &mut Connection,
    request: &Request<'_>,
) -> Result<Response, NetError> {
    let mut seen = Vec::new();
    let mut sink = |bytes: &[u8]| {
        seen.extend_from_slice(bytes);
        ControlFlow::Continue(())
    };
    let response = connection.fetch(request, &mut sink).await?;
    assert_eq!(seen, response.body, "the sink saw something else");
    Ok(response)
}

/// One connection, one request, one answer; the connection is returned for questions.
pub async fn ask(
    script: Vec<Step>,
    settings: &HttpSettings,
    request: &Request<'_>,
) -> (Result<Response, NetError>, Connection) {
    let server = Server::start(vec![script]).await;
    let mut connection = server.connect(settings).await;
    let result = fetch(&mut connection, request).await;
    (result, connection)
}

/// The answer to a GET, sent whole and then closed.
pub async fn answer(bytes: impl AsRef<[u8]>) -> (Response, Connection) {
    let script = vec![Step::Request, send(bytes)];
    let (result, connection) = ask(script, &settings(), &Request::get("/")).await;
    (result.unwrap(), connection)
}
