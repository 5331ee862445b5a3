//! From names to connections: guard, rules, several addresses, DNS servers.

mod server;

use portolan_model::{Reason, SystemClock};
use portolan_net::{
    Connector, DnsResolver, DnsSettings, Guard, HttpSettings, Mapping, NotResolved, Origin,
    ResolveRule, Resolved, Resolver, Scheme, StaticResolver, SystemResolver,
};
use server::{Server, Step, connector, get, here, send, settings};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UdpSocket;

const ANSWER: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

fn mapping(rules: &[&str]) -> Mapping {
    let rules = rules.iter().map(|rule| ResolveRule::parse(rule).unwrap());
    Mapping::new(
        StaticResolver::new(rules.collect()),
        Arc::new(SystemResolver),
        DnsSettings::default(),
        Arc::new(SystemClock::start()),
    )
}

#[tokio::test]
async fn rules_lead_to_another_port_while_the_host_header_keeps_its_own() {
    let server = Server::start(vec![vec![Step::Request, send(ANSWER)]]).await;
    let mapping = mapping(&[&format!("*.example.test=127.0.0.1:{}", server.port)]);
    let resolved = mapping.resolve("www.example.test").await.unwrap();
    let origin = Origin::new(Scheme::Http, "www.example.test", 80);
    let mut connection = connector(&settings())
        .connect(&origin, &resolved)
        .await
        .unwrap();
    assert_eq!(
        connection.peer().expect("it is known").to_string(),
        "127.0.0.1"
    );
    assert_eq!(
        connection.peer_socket().map(|peer| peer.port()),
        Some(server.port)
    );
    let response = get(&mut connection, "/").await.unwrap();
    assert_eq!(response.body, b"hello");
    assert!(server.requests()[0].contains("\r\nHost: www.example.test\r\n"));
}

#[tokio::test]
async fn private_addresses_are_refused_when_connecting() {
    let server = Server::start(vec![vec![Step::Request, send(ANSWER)]]).await;
    let unnamed = Resolved {
        named: false,
        ..here()
    };
    let origin = server.origin();
    let error = connector(&settings())
        .connect(&origin, &unnamed)
        .await
        .err()
        .unwrap();
    assert_eq!(error.reason(), Reason::PrivateAddress, "{error}");
    // IP literals go the same way.
    let literal = Origin::new(Scheme::Http, "127.0.0.1", server.port);
    let resolved = mapping(&[]).resolve("127.0.0.1").await.unwrap();
    let refused = connector(&settings()).connect(&literal, &resolved).await;
    assert_eq!(refused.err().unwrap().reason(), Reason::PrivateAddress);
    assert!(server.requests().is_empty(), "the guard came too late");
    // A seed of that name opens the door.
    let guard = Guard::new(
        false,
        vec![],
        [("odd.test".to_owned(), vec!["127.0.0.9".parse().unwrap()])],
    );
    let connector = Connector::new(settings(), guard).unwrap();
    let mut connection = connector.connect(&origin, &unnamed).await.unwrap();
    assert_eq!(get(&mut connection, "/").await.unwrap().body, b"hello");
}

#[tokio::test]
async fn ports_of_other_services_are_refused_when_connecting() {
    let origin = Origin::new(Scheme::Http, "odd.test", 6379);
    let unruled = Resolved {
        port_override: None,
        ..here()
    };
    let connector = connector(&settings());
    let error = connector.connect(&origin, &unruled).await.err().unwrap();
    assert_eq!(error.reason(), Reason::Port, "{error}");
    assert!(error.to_string().contains("Redis"), "{error}");
    // A person's rule says where to connect, whatever the URL says.
    let server = Server::start(vec![vec![Step::Request, send(ANSWER)]]).await;
    let ruled = Resolved {
        port_override: Some(server.port),
        ..here()
    };
    let mut connection = connector.connect(&origin, &ruled).await.unwrap();
    assert_eq!(get(&mut connection, "/").await.unwrap().body, b"hello");
}

#[tokio::test]
async fn the_next_address_is_tried_where_one_does_not_answer() {
    let server = Server::start(vec![vec![Step::Request, send(ANSWER)]]).await;
    // Nobody listens on ::1 at this port.
    let resolved = Resolved {
        addresses: vec!["::1".parse().unwrap(), "127.0.0.1".parse().unwrap()],
        ..here()
    };
    let mut connection = connector(&settings())
        .connect(&server.origin(), &resolved)
        .await
        .unwrap();
    assert_eq!(get(&mut connection, "/").await.unwrap().body, b"hello");
    assert_eq!(
        connection.peer().expect("it is known").to_string(),
        "127.0.0.1"
    );
}

#[tokio::test]
async fn closed_ports_and_silent_handshakes_have_their_reasons() {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0))
        .await
        .unwrap();
    let port = listener.local_addr().unwrap().port();
    let quick = HttpSettings {
        connect_timeout_ms: 200,
        ..settings()
    };
    // Takes the connection and never speaks.
    let silent = Origin::new(Scheme::Https, "odd.test", port);
    let error = connector(&quick)
        .connect(&silent, &here())
        .await
        .err()
        .unwrap();
    assert_eq!(error.reason(), Reason::Timeout, "{error}");
    drop(listener);
    let closed = Origin::new(Scheme::Http, "odd.test", port);
    let error = connector(&quick)
        .connect(&closed, &here())
        .await
        .err()
        .unwrap();
    assert_eq!(error.reason(), Reason::Connect, "{error}");
    let nowhere = Resolved {
        addresses: vec![],
        ..here()
    };
    let error = connector(&quick)
        .connect(&closed, &nowhere)
        .await
        .err()
        .unwrap();
    assert_eq!(error.reason(), Reason::UnknownHost, "{error}");
}

#[tokio::test]
async fn the_system_knows_localhost() {
    let answer = SystemResolver.lookup("localhost").await.unwrap();
    assert!(answer.addresses.iter().all(|ip| ip.is_loopback()));
    assert!(!answer.addresses.is_empty() && answer.ttl_ms.is_none());
}

/// A DNS server that knows one name: two A records with a TTL of 77 s, no AAAA, NXDOMAIN otherwise.
async fn dns_server() -> String {
    let socket = UdpSocket::bind(("127.0.0.1", 0)).await.unwrap();
    let address = socket.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        let mut query = [0; 512];
        while let Ok((length, client)) = socket.recv_from(&mut query).await {
            let reply = dns_reply(&query[..length]);
            socket.send_to(&reply, client).await.ok();
        }
    });
    address
}

fn dns_reply(query: &[u8]) -> Vec<u8> {
    let name_end = 12 + query[12..].iter().position(|&b| b == 0).unwrap() + 1;
    let name = query[12..name_end].to_ascii_lowercase();
    let question = &query[12..name_end + 4];
    let wants_a = query[name_end..name_end + 2] == [0, 1];
    let known = name == b"\x05known\x04test\0";
    let addresses: &[[u8; 4]] = match known && wants_a {
        true => &[[192, 0, 2, 1], [192, 0, 2, 2]],
        false => &[],
    };
    let code = if known { 0 } else { 3 };
    let answers = addresses.len() as u8;
    let authorities = u8::from(addresses.is_empty());
    let mut reply = query[..2].to_vec();
    reply.extend_from_slice(&[0x85, 0x80 | code, 0, 1, 0, answers, 0, authorities, 0, 0]);
    reply.extend_from_slice(question);
    for address in addresses {
        reply.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 77, 0, 4]);
        reply.extend_from_slice(address);
    }
    if addresses.is_empty() {
        // SOA of the root with a negative TTL of 33 s.
        reply.extend_from_slice(&[0, 0, 6, 0, 1, 0, 0, 0, 33, 0, 22, 0, 0]);
        for number in [1u32, 2, 3, 4, 33] {
            reply.extend_from_slice(&number.to_be_bytes());
        }
    }
    reply
}

#[tokio::test]
async fn named_dns_servers_are_asked_and_their_ttl_is_kept() {
    let resolver = DnsResolver::new(&[dns_server().await], 2_000, 1).unwrap();
    let answer = resolver.lookup("known.test").await.unwrap();
    let addresses: Vec<_> = answer.addresses.iter().map(ToString::to_string).collect();
    assert_eq!(addresses, ["192.0.2.1", "192.0.2.2"]);
    assert_eq!(answer.ttl_ms, Some(77_000));
    let missing: NotResolved = resolver.lookup("unknown.test").await.unwrap_err();
    assert_eq!(missing.ttl_ms, Some(33_000), "{missing:?}");
    for bad in ["", "dns.test", "9.9.9.9:dns"] {
        let error = DnsResolver::new(&[bad.to_owned()], 1, 1).err().unwrap();
        assert!(error.to_string().contains(&format!("'{bad}'")), "{error}");
    }
    assert!(DnsResolver::new(&[], 1, 1).is_err());
}

/// Workers have runtimes of their own, which end; the resolver goes on.
#[test]
fn dns_answers_outlive_the_runtime_that_asked_first() {
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
    };
    let server_runtime = runtime();
    let address = server_runtime.block_on(dns_server());
    let serving = std::thread::spawn(move || {
        server_runtime.block_on(async { tokio::time::sleep(Duration::from_secs(2)).await });
    });
    let resolver = Arc::new(DnsResolver::new(&[address], 1_000, 1).unwrap());
    for _ in 0..3 {
        let resolver = resolver.clone();
        std::thread::spawn(move || {
            runtime().block_on(async move {
                assert!(resolver.lookup("known.test").await.is_ok());
            });
        })
        .join()
        .unwrap();
    }
    serving.join().unwrap();
}
