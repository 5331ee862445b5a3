//! What a page costs the server: asks for every page of the bench preset over kept connections, and prints the CPU time of the
//! server's own threads a page. `cargo run --release -p portolan-simweb --example cost [HOSTS]`; Linux only.

use portolan_simweb::{Server, TruthQuery, Web, WebSpec};
use std::error::Error;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Instant;

/// Connections in turn, so that the server finds several ready at once, as it does under a crawler.
const CONNECTIONS: usize = 64;

fn main() -> Result<(), Box<dyn Error>> {
    let hosts = std::env::args().nth(1).map_or(Ok(200), |n| n.parse())?;
    let start = Instant::now();
    let web = Arc::new(Web::new(WebSpec::bench().with_hosts(hosts))?);
    println!(
        "{} pages planned in {:?}",
        web.page_count(),
        start.elapsed()
    );
    let start = Instant::now();
    let truth = web.truth(&TruthQuery::default());
    println!(
        "truth of {} documents in {:?}",
        truth.documents().len(),
        start.elapsed()
    );

    let server = Server::start(web.clone(), SocketAddr::from(([127, 0, 0, 1], 0)))?;
    let urls: Vec<&str> = truth.documents().into_iter().collect();
    let mut lanes: Vec<TcpStream> = Vec::new();
    for _ in 0..CONNECTIONS {
        let stream = TcpStream::connect(server.addr())?;
        stream.set_nodelay(true)?;
        lanes.push(stream);
    }
    let before = server_cpu_ns()?;
    let start = Instant::now();
    let mut bytes = 0;
    let mut buffer = vec![0; 256 * 1024];
    for batch in urls.chunks(CONNECTIONS) {
        for (stream, url) in lanes.iter_mut().zip(batch) {
            let (host, target) = web.locate(url).ok_or("a URL of another Web")?;
            let name = web.host_name(host);
            let request = format!(
                "GET {target} HTTP/1.1\r\nHost: {name}\r\nUser-Agent: cost/1\r\nAccept: */*\r\n\r\n"
            );
            stream.write_all(request.as_bytes())?;
        }
        for (stream, _) in lanes.iter_mut().zip(batch) {
            bytes += read_answer(stream, &mut buffer)?;
        }
    }
    let (seconds, cpu_ns) = (start.elapsed().as_secs_f64(), server_cpu_ns()? - before);
    let pages = urls.len();
    println!(
        "{pages} pages, {} bytes a page, {:.0} pages/s",
        bytes / pages,
        pages as f64 / seconds
    );
    println!(
        "server CPU {:.1} µs a page",
        cpu_ns as f64 / 1_000.0 / pages as f64
    );
    let report = server.shutdown().report();
    println!(
        "the witness counted {} requests, {} repeats",
        report.requests, report.repeats
    );
    Ok(())
}

/// Reads one answer with a Content-Length; gives its size.
fn read_answer(stream: &mut TcpStream, buffer: &mut [u8]) -> Result<usize, Box<dyn Error>> {
    let (mut filled, mut wanted) = (0, usize::MAX);
    while filled < wanted {
        let n = stream.read(&mut buffer[filled..])?;
        if n == 0 {
            return Err("closed early".into());
        }
        filled += n;
        if wanted == usize::MAX
            && let Some(end) = buffer[..filled].windows(4).position(|w| w == b"\r\n\r\n")
        {
            let head = String::from_utf8_lossy(&buffer[..end]);
            let length = head
                .split("Content-Length: ")
                .nth(1)
                .and_then(|l| l.split("\r\n").next());
            wanted = end + 4 + length.ok_or("no length")?.parse::<usize>()?;
        }
    }
    Ok(filled)
}

/// Nanoseconds on a CPU of all threads that serve.
fn server_cpu_ns() -> Result<u64, Box<dyn Error>> {
    let mut total = 0;
    for task in fs::read_dir("/proc/self/task")? {
        let path = task?.path();
        if fs::read_to_string(path.join("comm"))?.starts_with("simweb-") {
            let stat = fs::read_to_string(path.join("schedstat"))?;
            total += stat.split(' ').next().unwrap_or_default().parse::<u64>()?;
        }
    }
    Ok(total)
}
