//! One connection: read a request, let the Web answer, put it on the wire, tell the witness. Keep-alive and pipelining-safe.

use crate::answer::Reply;
use crate::control::control;
use crate::oddity::Oddity;
use crate::request::{Method, Parsed, Request, parse};
use crate::seed::Draw;
use crate::sick::{self, Sick, SickKind};
use crate::web::Web;
use crate::wire::{Sent, Stream, Wire};
use crate::witness::{Arrival, Outcome, Ticket, Witness};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const READ_BYTES: usize = 4 * 1024;
/// A client that says nothing for this long is cut off.
const IDLE_LIMIT: Duration = Duration::from_secs(120);
/// A client that takes nothing for this long is cut off.
const SEND_LIMIT: Duration = Duration::from_secs(120);
/// Bytes a client may send ahead while its answer is awaited.
const MAX_AHEAD_BYTES: usize = 64 * 1024;

pub(crate) struct Connection<S> {
    web: Arc<Web>,
    witness: Arc<Witness>,
    stream: S,
    ip: usize,
    input: Vec<u8>,
    output: Vec<u8>,
    answer: Reply,
    /// The host the connection is counted for.
    host: Option<u32>,
    user_agent: Option<String>,
    requests: u64,
    /// Only questions to the witness are answered.
    control_only: bool,
}

impl<S: Stream> Connection<S> {
    pub(crate) fn new(web: Arc<Web>, witness: Arc<Witness>, stream: S, ip: usize) -> Self {
        Connection {
            web,
            witness,
            stream,
            ip,
            input: Vec::with_capacity(READ_BYTES),
            output: Vec::new(),
            answer: Reply::default(),
            host: None,
            user_agent: None,
            requests: 0,
            control_only: false,
        }
    }

    /// A connection that the Web's pages are not served on.
    pub(crate) fn for_control(mut self) -> Self {
        self.control_only = true;
        self
    }

    /// Serves until either side has had enough. A client that goes away is no error worth telling.
    pub(crate) async fn serve(mut self) {
        let _ = self.serve_all().await;
    }

    async fn serve_all(&mut self) -> io::Result<()> {
        let mut pipelined = false;
        loop {
            let request = loop {
                match parse(&self.input) {
                    Parsed::Whole(request, used) => {
                        self.input.drain(..used);
                        break request;
                    }
                    Parsed::Bad => return self.refuse(400, b"this is no HTTP/1 request\n").await,
                    Parsed::NeedMore => {}
                }
                pipelined = false;
                match tokio::time::timeout(IDLE_LIMIT, self.stream.read_buf(&mut self.input)).await
                {
                    Ok(Ok(0)) | Err(_) => return Ok(()),
                    Ok(read) => read?,
                };
            };
            if !self.exchange(&request, pipelined).await? {
                return Ok(());
            }
            pipelined = !self.input.is_empty();
        }
    }

    /// One request and its answer; says whether the connection goes on.
    async fn exchange(&mut self, request: &Request, pipelined: bool) -> io::Result<bool> {
        if request.content_length > 0 {
            self.refuse(400, b"requests have no body here\n").await?;
            return Ok(false);
        }
        let Some(authority) = request.host.as_deref().or(request.http10.then_some("")) else {
            self.refuse(400, b"a Host header is needed\n").await?;
            return Ok(false);
        };
        if let Some(sick) = self.web.sick_named(authority)
            && !self.control_only
        {
            self.suffer(sick).await?;
            return Ok(false);
        }
        let host = self.web.host_named(authority);
        let Some(host) = host.filter(|_| !self.control_only) else {
            return self.misdirected(request).await;
        };
        self.turn_to(host, request);
        let (resource, alias) = self.web.resource(host, &request.target);
        let ticket = self.witness.begin(&Arrival {
            host,
            ip: self.ip,
            resource,
            target: &request.target,
            alias,
            head: request.method == Method::Head,
            conditional: request.if_none_match.is_some() || request.if_modified_since.is_some(),
            pipelined,
        });
        self.requests += 1;
        let web = self.web.clone();
        web.answer(host, resource, request, ticket.refusals, &mut self.answer);
        match self.think_and_send(host, request).await {
            Ok(sent) => {
                self.settle(ticket, request, &sent);
                Ok(sent.keep && !self.tires(host))
            }
            Err(gone) => {
                self.witness.abort(ticket, &request.target);
                Err(gone)
            }
        }
    }

    async fn think_and_send(&mut self, host: u32, request: &Request) -> io::Result<Sent> {
        let mean_ms = self.web.hosts[host as usize].latency_ms;
        if mean_ms > 0.0 {
            let mut draw = Draw::at(self.web.spec.seed, u64::from(host), self.requests, 0x60);
            let pause_ms = draw.around(mean_ms, self.web.spec.latency.answer_spread);
            self.wait(Duration::from_micros((pause_ms * 1_000.0) as u64))
                .await?;
        }
        self.send(request).await
    }

    async fn send(&mut self, request: &Request) -> io::Result<Sent> {
        let wire = Wire {
            witness: &self.witness,
            words: &self.web.words,
            odd: &self.web.spec.odd,
            head: request.method == Method::Head,
            keep: !request.close && !self.is_spent(),
            say_keep: request.http10,
        };
        let sending = wire.send(&mut self.stream, &self.answer, &mut self.output);
        tokio::time::timeout(SEND_LIMIT, sending).await?
    }

    /// Pauses, but notices a client that goes away meanwhile: its request is over then, not when the pause is.
    async fn wait(&mut self, pause: Duration) -> io::Result<()> {
        let end = tokio::time::sleep(pause);
        tokio::pin!(end);
        loop {
            tokio::select! {
                biased;
                () = &mut end => return Ok(()),
                read = self.stream.read_buf(&mut self.input) => {
                    if read? == 0 || self.input.len() > MAX_AHEAD_BYTES {
                        return Err(io::ErrorKind::ConnectionAborted.into());
                    }
                }
            }
        }
    }

    fn settle(&self, ticket: Ticket, request: &Request, sent: &Sent) {
        let outcome = Outcome {
            status: self.answer.status,
            is_final: self.answer.is_final(),
            bytes: sent.bytes,
            retry_after_s: self.answer.retry_after_s,
            end_ns: sent.end_ns,
        };
        self.witness.end(ticket, &request.target, &outcome);
    }

    /// Whether the connection has had as many requests as it may.
    fn is_spent(&self) -> bool {
        let most = self.web.spec.requests_per_connection;
        most > 0 && self.requests >= u64::from(most)
    }

    /// Whether the host closes this connection now without having said so.
    fn tires(&self, host: u32) -> bool {
        let closes = self.web.hosts[host as usize].oddity == Some(Oddity::ClosesEarly);
        closes
            && self
                .requests
                .is_multiple_of(self.web.spec.odd.close_after.into())
            || self.answer.oddity == Some(Oddity::ClosesEarly) && !closes
    }

    /// Counts the connection for the host, and the user agent when it is new on this connection.
    fn turn_to(&mut self, host: u32, request: &Request) {
        if self.host != Some(host) {
            self.witness.connection_turns(self.host, Some(host));
            self.host = Some(host);
        }
        if self.user_agent.as_deref() != Some(&request.user_agent) {
            self.witness.user_agent(&request.user_agent);
            self.user_agent = Some(request.user_agent.clone());
        }
    }

    /// What a sick host does with a request, until the client has had enough.
    async fn suffer(&mut self, sick: Sick) -> io::Result<()> {
        let witness = Arc::clone(&self.witness);
        let _stay = witness.sick().admit(sick);
        let text = sick::drip_text();
        let mut sent = match sick.kind {
            SickKind::Drip if sick.number % 2 == 1 => {
                let head = sick::drip_head_bytes(&text);
                self.stream.write_all(&text[..head]).await?;
                head
            }
            _ => 0,
        };
        let pause = Duration::from_millis(self.web.spec.sick.drip_pause_ms.into());
        loop {
            self.wait(pause).await?;
            if sick.kind == SickKind::Drip {
                // The body goes on for as long as anybody listens.
                let byte = *text.get(sent).unwrap_or(&b'.');
                self.stream.write_all(&[byte]).await?;
                sent += 1;
            }
        }
    }

    async fn misdirected(&mut self, request: &Request) -> io::Result<bool> {
        if control(&self.web, &self.witness, request, &mut self.answer) {
            return Ok(self.send(request).await?.keep);
        }
        self.refuse(
            421,
            b"no such host in this Web; its hosts are h0, h1, ...; see /-/\n",
        )
        .await?;
        Ok(false)
    }

    async fn refuse(&mut self, status: u16, why: &[u8]) -> io::Result<()> {
        self.witness.bad_request();
        self.answer.plain(status, "text/plain", why);
        let request = Request {
            close: true,
            ..Request::default()
        };
        self.send(&request).await.map(|_| ())
    }
}

impl<S> Drop for Connection<S> {
    fn drop(&mut self) {
        self.witness.connection_turns(self.host, None);
    }
}
