//! A server of answers that a test writes itself, for what the simulated Web does not serve.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A server of a few fixed answers, by path, that counts its connections. Ends with the test.
pub struct Fixed {
    pub addr: SocketAddr,
    pub connections: Arc<AtomicU64>,
}

pub fn serve(answer: impl Fn(&str) -> String + Send + 'static) -> Fixed {
    serve_bytes(move |path| answer(path).into_bytes())
}

/// For answers that are no text.
pub fn serve_bytes(answer: impl Fn(&str) -> Vec<u8> + Send + 'static) -> Fixed {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    serve_on(listener, answer)
}

pub fn serve_on(listener: TcpListener, answer: impl Fn(&str) -> Vec<u8> + Send + 'static) -> Fixed {
    serve_all(listener, move |_, path| answer(path))
}

/// For answers that depend on the host that is asked, too.
pub fn serve_hosts(answer: impl Fn(&str, &str) -> Vec<u8> + Send + 'static) -> Fixed {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    serve_all(listener, answer)
}

fn serve_all(
    listener: TcpListener,
    answer: impl Fn(&str, &str) -> Vec<u8> + Send + 'static,
) -> Fixed {
    let addr = listener.local_addr().expect("it is bound");
    let connections = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&connections);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            count.fetch_add(1, Ordering::SeqCst);
            let mut request = [0u8; 4096];
            let Ok(read) = stream.read(&mut request) else {
                continue;
            };
            let head = String::from_utf8_lossy(&request[..read]).into_owned();
            let path = head.split(' ').nth(1).unwrap_or("/").to_owned();
            let host = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("host")
                    .then(|| value.trim().to_owned())
            });
            let _ = stream.write_all(&answer(&host.unwrap_or_default(), &path));
        }
    });
    Fixed { addr, connections }
}

/// A page of HTML as an answer.
pub fn page(body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

pub fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(data).expect("memory");
    encoder.finish().expect("memory")
}
