use super::super::{Lookup, ResolveRule};
use super::*;
use portolan_model::ManualClock;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

/// Answers after a while, and counts.
#[derive(Default)]
struct Slow {
    ttl_ms: Option<u64>,
    asked: AtomicUsize,
    at_once: AtomicUsize,
    most_at_once: AtomicUsize,
}

impl Resolver for Slow {
    fn lookup<'a>(&'a self, host: &'a str) -> Lookup<'a> {
        Box::pin(async move {
            self.asked.fetch_add(1, Ordering::Relaxed);
            let now = self.at_once.fetch_add(1, Ordering::Relaxed) + 1;
            self.most_at_once.fetch_max(now, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(20)).await;
            self.at_once.fetch_sub(1, Ordering::Relaxed);
            if host.starts_with("nowhere") {
                return Err(NotResolved {
                    detail: "no such name".to_owned(),
                    cause: NotResolvedBy::NoSuchName,
                    ttl_ms: self.ttl_ms,
                });
            }
            if host.starts_with("never") {
                std::future::pending::<()>().await;
            }
            Ok(Addresses {
                addresses: vec!["9.9.9.9".parse().unwrap()],
                port_override: None,
                ttl_ms: self.ttl_ms,
                named: false,
            })
        })
    }
}

struct Bench {
    resolver: Arc<Slow>,
    clock: Arc<ManualClock>,
    mapping: Mapping,
}

fn bench(ttl_ms: Option<u64>, settings: DnsSettings) -> Bench {
    let resolver = Arc::new(Slow {
        ttl_ms,
        ..Slow::default()
    });
    let clock = Arc::new(ManualClock::at(1_000));
    let rules = ["named.test=127.0.0.1:8080", "10.0.0.1=127.0.0.2"];
    let rules = rules.map(|rule| ResolveRule::parse(rule).unwrap());
    let mapping = Mapping::new(
        StaticResolver::new(rules.to_vec()),
        resolver.clone(),
        settings,
        clock.clone(),
    );
    Bench {
        resolver,
        clock,
        mapping,
    }
}

impl Bench {
    fn asked(&self) -> usize {
        self.resolver.asked.load(Ordering::Relaxed)
    }
}

#[tokio::test]
async fn rules_and_literals_need_no_resolver() {
    let b = bench(None, DnsSettings::default());
    let named = b.mapping.resolve("named.test").await.unwrap();
    assert_eq!(named.port_override, Some(8080));
    assert!(named.named);
    let literal = b.mapping.resolve("[::1]").await.unwrap();
    assert_eq!(literal.addresses[0].to_string(), "::1");
    assert!(!literal.named);
    let ruled = b.mapping.resolve("10.0.0.1").await.unwrap();
    assert_eq!(ruled.addresses[0].to_string(), "127.0.0.2");
    assert_eq!(b.asked(), 0);
    assert_eq!(b.mapping.counters().named, 3);
}

#[tokio::test]
async fn answers_hold_for_their_time_within_bounds() {
    let settings = DnsSettings {
        ttl_unknown_ms: 500,
        ttl_min_ms: 100,
        ttl_max_ms: 1_000,
        ..DnsSettings::default()
    };
    for (said_ms, held_ms) in [
        (None, 500),
        (Some(0), 100),
        (Some(300), 300),
        (Some(9_999_999), 1_000),
    ] {
        let b = bench(said_ms, settings.clone());
        let first = b.mapping.resolve("a.test").await.unwrap();
        assert_eq!(first.expires_ms, 1_000 + held_ms);
        b.clock.advance_ms(held_ms - 1);
        b.mapping.resolve("a.test").await.unwrap();
        assert_eq!(b.asked(), 1, "{said_ms:?}");
        b.clock.advance_ms(1);
        b.mapping.resolve("a.test").await.unwrap();
        assert_eq!(b.asked(), 2, "{said_ms:?}");
    }
}

#[tokio::test]
async fn failures_are_remembered_too() {
    for (said_ms, held_ms) in [(None, 400), (Some(100), 100), (Some(9_999_999), 400)] {
        let settings = DnsSettings {
            ttl_negative_ms: 400,
            ..DnsSettings::default()
        };
        let b = bench(said_ms, settings);
        for _ in 0..3 {
            let error = b.mapping.resolve("nowhere.test").await.unwrap_err();
            assert_eq!(error.reason(), portolan_model::Reason::UnknownHost);
            assert!(error.to_string().contains("nowhere.test"), "{error}");
        }
        assert_eq!(b.asked(), 1);
        b.clock.advance_ms(held_ms);
        assert!(b.mapping.resolve("nowhere.test").await.is_err());
        assert_eq!(b.asked(), 2);
        let counters = b.mapping.counters();
        assert_eq!(
            (counters.lookups, counters.failures, counters.hits),
            (2, 2, 2)
        );
    }
}

#[tokio::test]
async fn a_name_is_asked_for_once_however_many_want_it() {
    let b = Arc::new(bench(None, DnsSettings::default()));
    let mut tasks = Vec::new();
    for _ in 0..50 {
        let b = b.clone();
        tasks.push(tokio::spawn(
            async move { b.mapping.resolve("a.test").await },
        ));
    }
    for task in tasks {
        assert!(task.await.unwrap().is_ok());
    }
    assert_eq!(b.asked(), 1);
    assert!(lock(&b.mapping.flights).is_empty());
}

#[tokio::test]
async fn who_gives_up_leaves_the_question_to_the_next() {
    let b = Arc::new(bench(None, DnsSettings::default()));
    let asker = tokio::spawn({
        let b = b.clone();
        async move { b.mapping.resolve("a.test").await }
    });
    tokio::time::sleep(Duration::from_millis(5)).await;
    let waiter = tokio::spawn({
        let b = b.clone();
        async move { b.mapping.resolve("a.test").await }
    });
    tokio::time::sleep(Duration::from_millis(5)).await;
    asker.abort();
    assert!(waiter.await.unwrap().is_ok());
    assert_eq!(b.asked(), 2);
    assert!(lock(&b.mapping.flights).is_empty());
}

#[tokio::test]
async fn only_so_many_are_asked_for_at_once_and_none_for_ever() {
    let settings = DnsSettings {
        at_once: 3,
        timeout_ms: 100,
        ..DnsSettings::default()
    };
    let b = Arc::new(bench(None, settings));
    let mut tasks = Vec::new();
    for n in 0..12 {
        let b = b.clone();
        tasks.push(tokio::spawn(async move {
            b.mapping.resolve(&format!("{n}.test")).await
        }));
    }
    for task in tasks {
        assert!(task.await.unwrap().is_ok());
    }
    assert_eq!(b.resolver.most_at_once.load(Ordering::Relaxed), 3);
    let error = b.mapping.resolve("never.test").await.unwrap_err();
    assert!(error.to_string().contains("within 100 ms"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn names_that_never_answer_keep_no_others_waiting() {
    let settings = DnsSettings {
        at_once: 2,
        slow_ms: 100,
        slow_at_once: 3,
        timeout_ms: 10_000,
        ..DnsSettings::default()
    };
    let b = Arc::new(bench(None, settings));
    let begun = tokio::time::Instant::now();
    let ask = |name: String| {
        let b = b.clone();
        tokio::spawn(async move { (b.mapping.resolve(&name).await, begun.elapsed()) })
    };
    let hanging: Vec<_> = (0..20).map(|n| ask(format!("never{n}.test"))).collect();
    tokio::time::sleep(Duration::from_millis(1)).await;
    let healthy: Vec<_> = (0..6).map(|n| ask(format!("h{n}.test"))).collect();
    for task in healthy {
        let (answer, after) = task.await.unwrap();
        assert!(answer.is_ok());
        // Twenty hanging names, five at a time, for half a second each; not for ten seconds each.
        assert!(after < Duration::from_millis(3_000), "{after:?}");
    }
    let mut whole_time = 0;
    for task in hanging {
        let (answer, after) = task.await.unwrap();
        let error = answer.unwrap_err().to_string();
        whole_time += usize::from(error.contains("within 10000 ms"));
        assert!(after < Duration::from_millis(15_200), "{after:?}");
    }
    assert_eq!(whole_time, 3, "the others were given up for them");
    assert!(b.mapping.slow.is_empty());
}

#[tokio::test]
async fn the_cache_is_bounded_and_forgets_what_is_not_used() {
    let settings = DnsSettings {
        cache_entries: 100,
        ..DnsSettings::default()
    };
    let b = bench(None, settings);
    let known = b.mapping.resolve("keep.test").await.unwrap();
    for n in 0..1_000 {
        lock(&b.mapping.cache).insert(&format!("{n}.test"), Known::At(known.clone()));
        b.mapping.resolve("keep.test").await.unwrap();
    }
    assert_eq!(b.asked(), 1);
    let cache = lock(&b.mapping.cache);
    assert!(cache.young.len() + cache.old.len() <= 100);
}
