//! What a request costs in CPU time: 20 KB pages over kept connections on loopback, the server in a
//! process of its own so that only the client is measured.
//!
//! `cargo run --release -p portolan-net --example request_cost -- [REQUESTS] [CONNECTIONS] [length|chunked|gzip]`

use portolan_net::{Connector, Decoder, Guard, HttpSettings, Origin, Request, Resolved, Scheme};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::ops::ControlFlow;
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::Instant;

type AnyError = Box<dyn std::error::Error>;

const PAGE_BYTES: usize = 20_000;

fn main() -> Result<(), AnyError> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [word, framing] = arguments.as_slice()
        && word == "serve"
    {
        return serve(framing);
    }
    let argument =
        |at: usize, default: &str| arguments.get(at).map_or(default.to_owned(), String::clone);
    let requests: usize = argument(0, "50000").parse()?;
    let connections: usize = argument(1, "50").parse()?;
    let framing = argument(2, "length");

    let mut server = Command::new(std::env::current_exe()?)
        .args(["serve", &framing])
        .stdout(Stdio::piped())
        .spawn()?;
    let mut port = String::new();
    let output = server.stdout.take().ok_or("the server has no output")?;
    BufReader::new(output).read_line(&mut port)?;
    let measured = measure(requests, connections, port.trim().parse()?);
    server.kill()?;
    server.wait()?;
    measured
}

fn measure(requests: usize, connections: usize, port: u16) -> Result<(), AnyError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let connector = Rc::new(Connector::new(HttpSettings::default(), Guard::default())?);
    let each = requests.div_ceil(connections);
    let (started, cpu_before_ns) = (Instant::now(), cpu_ns()?);
    let tasks = tokio::task::LocalSet::new();
    let handles: Vec<_> = (0..connections)
        .map(|_| tasks.spawn_local(fetch_all(connector.clone(), port, each)))
        .collect();
    let bytes = runtime.block_on(tasks.run_until(async {
        let mut bytes = 0;
        for handle in handles {
            bytes += handle.await??;
        }
        Ok::<_, AnyError>(bytes)
    }))?;
    let cpu_ns = cpu_ns()? - cpu_before_ns;
    let done = each * connections;
    println!(
        "{done} requests on {connections} connections: {:.1} us CPU a request, {:.0} requests/s, {} body bytes each",
        cpu_ns as f64 / 1_000.0 / done as f64,
        done as f64 / started.elapsed().as_secs_f64(),
        bytes / done,
    );
    Ok(())
}

async fn fetch_all(connector: Rc<Connector>, port: u16, requests: usize) -> Result<usize, String> {
    let resolved = Resolved {
        addresses: vec![std::net::Ipv4Addr::LOCALHOST.into()],
        port_override: None,
        expires_ms: u64::MAX,
        named: true,
    };
    let origin = Origin::new(Scheme::Http, "bench.test", port);
    let mut connection = connector
        .connect(&origin, &resolved)
        .await
        .map_err(|e| e.to_string())?;
    let mut bytes = 0;
    let mut sink = |_: &[u8]| ControlFlow::Continue(());
    for _ in 0..requests {
        let response = connection
            .fetch(&Request::get("/some/page.html"), &mut sink)
            .await
            .map_err(|e| e.to_string())?;
        let encoding = response.header_str("content-encoding").unwrap_or("");
        let limit = connector.settings().max_decoded_bytes;
        bytes += Decoder::decode_body(encoding, &response.body, limit)
            .0
            .len();
    }
    Ok(bytes)
}

/// CPU time of this, the only busy thread.
fn cpu_ns() -> Result<u64, AnyError> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(text.split(' ').next().unwrap_or_default().parse()?)
}

fn serve(framing: &str) -> Result<(), AnyError> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    println!("{}", listener.local_addr()?.port());
    let answer = answer(framing)?;
    for stream in listener.incoming() {
        let (stream, answer) = (stream?, answer.clone());
        std::thread::spawn(move || answer_all(stream, &answer));
    }
    Ok(())
}

/// Requests come one by one and fit into one read.
fn answer_all(mut stream: TcpStream, answer: &[u8]) {
    let mut request = [0; 4_096];
    stream.set_nodelay(true).ok();
    while matches!(stream.read(&mut request), Ok(n) if n > 0) {
        if stream.write_all(answer).is_err() {
            return;
        }
    }
}

fn answer(framing: &str) -> Result<Vec<u8>, AnyError> {
    let mut page = Vec::new();
    for n in 0u32.. {
        if page.len() >= PAGE_BYTES {
            page.truncate(PAGE_BYTES);
            break;
        }
        let number = n.wrapping_mul(2_654_435_761);
        writeln!(
            page,
            "<p>Paragraph {number} with <a href=\"/page/{number}.html\">a link</a>."
        )?;
    }
    let head = "HTTP/1.1 200 OK\r\nServer: bench\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nContent-Type: text/html; charset=utf-8\r\nLast-Modified: Thu, 01 Jan 1970 00:00:00 GMT\r\nETag: \"5f3a\"\r\nAccept-Ranges: bytes\r\nVary: Accept-Encoding\r\n";
    let mut answer = head.as_bytes().to_vec();
    match framing {
        "length" => {
            write!(answer, "Content-Length: {}\r\n\r\n", page.len())?;
            answer.extend_from_slice(&page);
        }
        "chunked" => {
            write!(answer, "Transfer-Encoding: chunked\r\n\r\n")?;
            for chunk in page.chunks(4_096) {
                write!(answer, "{:x}\r\n", chunk.len())?;
                answer.extend_from_slice(chunk);
                answer.extend_from_slice(b"\r\n");
            }
            answer.extend_from_slice(b"0\r\n\r\n");
        }
        "gzip" => {
            let mut encoder =
                flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            encoder.write_all(&page)?;
            let page = encoder.finish()?;
            write!(
                answer,
                "Content-Encoding: gzip\r\nContent-Length: {}\r\n\r\n",
                page.len()
            )?;
            answer.extend_from_slice(&page);
        }
        other => {
            return Err(format!("no framing '{other}'; there are length, chunked, gzip").into());
        }
    }
    Ok(answer)
}
