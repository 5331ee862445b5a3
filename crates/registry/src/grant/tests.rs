use super::*;
use portolan_model::{
    ArchivePosition, Fact, Link, LinkBatch, Outcome, Reason, RobotsRecord, RobotsStatus,
    SiteTables, Standing, Verdict, Visit,
};
use proptest::prelude::*;

prop_compose! {
    fn pulses()(
        times in (any::<u64>(), any::<u64>(), any::<u32>()),
        failing in proptest::option::of((1u16.., any::<u64>(), any::<u64>(), any::<bool>())),
    ) -> Pulse {
        let (last_ms, not_before_ms, delay_ms) = times;
        let pulse = Pulse { last_ms, not_before_ms, delay_ms, ..Pulse::default() };
        match failing {
            None => pulse,
            Some((failures, failing_since_ms, given_up_by, demanded)) => Pulse {
                failures,
                trouble: Some(Reason::Timeout),
                demanded,
                failing_since_ms,
                given_up_by,
                ..pulse
            },
        }
    }
}

prop_compose! {
    fn robots_records()(
        origin in ".{0,30}",
        rules in ".{0,200}",
        (fetched_ms, expires_ms) in any::<(u64, u64)>(),
        has_rules in any::<bool>(),
    ) -> RobotsRecord {
        RobotsRecord {
            origin,
            status: if has_rules { RobotsStatus::Rules } else { RobotsStatus::Absent },
            fetched_ms,
            expires_ms,
            rules,
            tables: SiteTables { tol: Standing::Served, tvi: Standing::Lied },
        }
    }
}

prop_compose! {
    fn visits()(
        (at_ms, wire_bytes, fingerprint, before, links_at) in any::<(u64, u64, u64, u64, u64)>(),
        (title, etag, fact) in (".{0,60}", ".{0,20}", ".{0,20}"),
        sha1 in any::<[u8; 20]>(),
        is_archived in any::<bool>(),
    ) -> Visit {
        let mut visit = Visit::without_answer(at_ms, Outcome::Fetched);
        visit.status = 200;
        (visit.wire_bytes, visit.fingerprint) = (wire_bytes, fingerprint);
        (visit.title, visit.etag, visit.sha1) = (title, etag, sha1);
        (visit.history.before, visit.history.links_at) = (before, links_at);
        visit.facts = vec![Fact { name: "pdf.pages".to_owned(), value: fact }];
        visit.archive = is_archived.then_some(ArchivePosition {
            file: 7,
            offset: wire_bytes,
            length: 90,
            end: wire_bytes,
        });
        visit
    }
}

fn docs() -> impl Strategy<Value = Vec<DocId>> {
    proptest::collection::vec(any::<u64>().prop_map(DocId), 0..20)
}

prop_compose! {
    fn granted()(
        doc in any::<u64>(),
        url in ".{0,80}",
        (class, depth, hops, attempts, score) in any::<(u8, u16, u8, u8, u32)>(),
        kind in proptest::sample::select(&LinkKind::ALL[..]),
        last in proptest::option::of((any::<u64>(), visits())),
        known_links in proptest::option::of(docs()),
    ) -> Granted {
        let last = last.map(|(at, visit)| Box::new(LastCheck { at, visit }));
        let due = Due { doc: DocId(doc), url, class, depth, hops, kind, attempts, score, last };
        Granted { due, known_links }
    }
}

prop_compose! {
    fn ids()((partition, epoch, number) in any::<(u16, u64, u64)>()) -> GrantId {
        GrantId { partition: PartitionId(partition), epoch, number }
    }
}

prop_compose! {
    fn grants()(
        id in ids(),
        (expires_ms, host, pages, in_flight) in any::<(u64, u64, u64, u64)>(),
        (name, pulse) in (".{0,40}", pulses()),
        robots in proptest::collection::vec(robots_records(), 0..3),
        recorded_delay_ms in any::<Option<u32>>(),
        urls in proptest::collection::vec(granted(), 0..4),
    ) -> Grant {
        let host = HostId(host);
        let turn = Turn { host, name, pulse, robots, pages, in_flight, recorded_delay_ms };
        Grant { id, expires_ms, turn, urls }
    }
}

fn links(urls: &[&str]) -> LinkBatch {
    let mut batch = LinkBatch::default();
    for url in urls {
        batch.push(Link {
            url,
            depth: 1,
            hops: 0,
            kind: LinkKind::Anchor,
            verdict: Verdict::Crawl { priority: 0 },
        });
    }
    batch
}

prop_compose! {
    fn returns()(
        id in ids(),
        host in any::<u64>(),
        pulse in pulses(),
        unused in docs(),
        (visit, robots) in (visits(), robots_records()),
    ) -> Return {
        let entries = vec![
            Entry::Host {
                host: "a.test".to_owned(),
                pulse,
                robots: Some(robots),
                archive: visit.archive,
                links: LinkBatch::default(),
                forwards: Vec::new(),
            },
            Entry::Visit {
                url: "http://a.test/".to_owned(),
                visit,
                pulse,
                links: links(&["http://a.test/1", "http://a.test/2"]),
                forwards: vec![(PartitionId(3), links(&["http://b.test/"]))],
                targets: vec![DocId(4), DocId(5)],
            },
        ];
        Return { id, host: HostId(host), pulse, unused, entries }
    }
}

proptest! {
    #[test]
    fn a_grant_comes_back_from_its_bytes(grant in grants()) {
        let bytes = grant.encode();
        prop_assert_eq!(Grant::decode(&bytes), Some(grant));
        prop_assert_eq!(Grant::decode(&bytes[..bytes.len() - 1]), None);
        prop_assert_eq!(Grant::decode(&[&bytes[..], &[0]].concat()), None);
    }

    #[test]
    fn a_return_comes_back_from_its_bytes(back in returns()) {
        let bytes = back.encode();
        prop_assert_eq!(Return::decode(&bytes), Some(back));
        prop_assert_eq!(Return::decode(&bytes[..bytes.len() - 1]), None);
    }

    #[test]
    fn other_bytes_are_refused_without_much_memory(mut bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = (Grant::decode(&bytes), Return::decode(&bytes));
        if let Some(first) = bytes.first_mut() {
            *first = FORMAT;
            let _ = (Grant::decode(&bytes), Return::decode(&bytes));
            bytes[0] = FORMAT + 1;
            prop_assert_eq!(Grant::decode(&bytes), None);
        }
    }
}
