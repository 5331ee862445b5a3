//! The store: a directory, S3 as moto speaks it, and an S3 that is out of order for a while.

use bytes::Bytes;
use portolan_fleet::{Blobs, FleetError};
use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

fn variables(port: u16) -> Vec<(String, String)> {
    let endpoint = format!("http://127.0.0.1:{port}");
    [
        ("AWS_ENDPOINT_URL", endpoint.as_str()),
        ("AWS_ACCESS_KEY_ID", "nobody"),
        ("AWS_SECRET_ACCESS_KEY", "knows"),
        ("AWS_REGION", "us-east-1"),
        ("AWS_PROFILE", "of another program"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .to_vec()
}

async fn does_what_stores_do(blobs: &Blobs) {
    blobs.check_writable().await.expect("it can be written");
    for (file, offset) in [("b", 0_u64), ("a", 100), ("a", 0), ("a", 20)] {
        let key = format!("warc/{file}/{offset:012}");
        blobs.put(&key, format!("{file} at {offset}").into()).await;
    }
    let keys: Vec<_> = blobs
        .list("warc/a/")
        .await
        .into_iter()
        .map(|object| object.key)
        .collect();
    assert_eq!(
        keys,
        [
            "warc/a/000000000000",
            "warc/a/000000000020",
            "warc/a/000000000100"
        ]
    );
    assert_eq!(blobs.list("warc/").await.len(), 4);
    assert!(blobs.list("journal/").await.is_empty());
    assert_eq!(blobs.get(&keys[2]).await, Some(Bytes::from("a at 100")));
    assert_eq!(
        blobs.get_range(&keys[2], 5..8).await,
        Some(Bytes::from("100"))
    );
    blobs.delete(&keys[2]).await;
    assert_eq!(blobs.get(&keys[2]).await, None);
    assert_eq!(blobs.trouble(), None);
}

#[tokio::test]
async fn a_directory_is_a_store() {
    let dir = tempfile::tempdir().expect("a directory");
    let place = format!("file://{}/x", dir.path().display());
    does_what_stores_do(&Blobs::open(&place).expect("a store")).await;
}

#[tokio::test]
async fn places_that_are_no_stores_are_told() {
    for place in ["", "s3://", "ftp://a/b", "file://relative"] {
        assert!(
            matches!(Blobs::open(place), Err(FleetError::BadStore(_))),
            "{place}"
        );
    }
    let blocked = Blobs::open("/proc/nothing/here");
    assert!(
        matches!(blocked, Err(FleetError::StoreNotWritable { .. })),
        "{blocked:?}"
    );
}

struct Moto(Child);

impl Drop for Moto {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn s3_is_a_store() {
    let Some(program) = std::env::var_os("PORTOLAN_S3_SERVER") else {
        println!("not run: no S3 server");
        assert!(std::env::var_os("CI").is_none(), "there is no S3 server");
        return;
    };
    let port = {
        let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        free.local_addr().expect("an address").port()
    };
    let child = Command::new(program)
        .args(["-H", "127.0.0.1", "-p", &port.to_string()])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let _moto = Moto(child.expect("it starts"));
    let open = |place: &str| Blobs::open_with(place, variables(port)).expect("a store");
    make_bucket(port, "crawls").await;
    does_what_stores_do(&open("s3://crawls/of/today")).await;
    // What is under a prefix is nobody else's.
    assert!(
        open("s3://crawls/of/tomorrow")
            .list("warc/")
            .await
            .is_empty()
    );
    assert_eq!(open("s3://crawls").list("of/today/warc/").await.len(), 3);
    // A bucket that is gone has taken nothing.
    let gone = open("s3://nothing");
    let put = tokio::time::timeout(Duration::from_secs(2), gone.put("a", "b".into())).await;
    assert!(put.is_err() && gone.trouble().is_some());
    let missing = gone.check_writable().await;
    assert!(
        matches!(missing, Err(FleetError::StoreNotWritable { .. })),
        "{missing:?}"
    );
}

async fn make_bucket(port: u16, bucket: &str) {
    let begun = std::time::Instant::now();
    loop {
        if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)).await {
            let request = format!(
                "PUT /{bucket} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            );
            stream
                .write_all(request.as_bytes())
                .await
                .expect("it is sent");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.expect("an answer");
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
            return;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(120),
            "the S3 server does not start"
        );
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// As much of S3 as PUT and GET of small objects need.
#[derive(Default)]
struct Sick {
    objects: Mutex<BTreeMap<String, Vec<u8>>>,
    out_of_order: AtomicBool,
    refused: AtomicUsize,
}

impl Sick {
    async fn serve(self: Arc<Self>, mut stream: TcpStream) -> std::io::Result<()> {
        let mut bytes = Vec::new();
        let head_end = loop {
            if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
            if stream.read_buf(&mut bytes).await? == 0 {
                return Ok(());
            }
        };
        let head = String::from_utf8_lossy(&bytes[..head_end]).to_ascii_lowercase();
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.and_then(|length| length.parse().ok()).unwrap_or(0);
        while bytes.len() < head_end + length {
            stream.read_buf(&mut bytes).await?;
        }
        let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
        let (status, body) = match () {
            () if self.out_of_order.load(Ordering::SeqCst) => {
                self.refused.fetch_add(1, Ordering::SeqCst);
                ("503 Slow Down", Vec::new())
            }
            () if head.starts_with("put") => {
                let body = bytes[head_end..].to_vec();
                self.objects.lock().expect("a lock").insert(path, body);
                ("200 OK", Vec::new())
            }
            () => match self.objects.lock().expect("a lock").get(&path) {
                Some(body) => ("200 OK", body.clone()),
                None => ("404 Not Found", Vec::new()),
            },
        };
        let head = format!(
            "HTTP/1.1 {status}\r\nETag: \"x\"\r\nLast-Modified: Wed, 21 Oct 2015 07:28:00 GMT\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        stream.write_all(&[head.as_bytes(), &body].concat()).await
    }
}

#[tokio::test]
async fn a_store_that_is_out_of_order_is_waited_for() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let sick = Arc::new(Sick::default());
    let server = sick.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(server.clone().serve(stream));
        }
    });
    let blobs = Blobs::open_with("s3://bucket/x", variables(port)).expect("a store");
    blobs.put("a", "first".into()).await;
    sick.out_of_order.store(true, Ordering::SeqCst);
    let writing = {
        let blobs = blobs.clone();
        tokio::spawn(async move { blobs.put("b", "second".into()).await })
    };
    while sick.refused.load(Ordering::SeqCst) < 3 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(!writing.is_finished());
    let trouble = blobs.trouble().expect("it says so");
    assert!(
        trouble.contains("s3://bucket/x") && trouble.contains("503"),
        "{trouble}"
    );
    sick.out_of_order.store(false, Ordering::SeqCst);
    writing.await.expect("it is written");
    assert_eq!(blobs.get("b").await, Some(Bytes::from("second")));
    assert_eq!(blobs.trouble(), None);
}
