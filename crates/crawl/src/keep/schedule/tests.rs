use super::*;

const DAY: u32 = 86_400;

fn settings() -> FreshnessSettings {
    crate::Settings::default().freshness
}

/// Pages of two hosts: even documents are of the first. All were fetched at the same time and are worth the same.
fn schedule(settings: &FreshnessSettings, pages: u64) -> Schedule {
    let mut schedule = Schedule::new(settings, 1);
    let known: Vec<KnownPage> = (0..pages)
        .map(|doc| KnownPage {
            doc: DocId(doc),
            host: schedule.hosts.number(HostId(doc % 2), PartitionId(0)),
            weight: 1.0,
            fetched: DAY,
            history: History::default(),
            is_source: false,
            in_flight: false,
        })
        .collect();
    schedule.fill(&known, PooledHistory::default());
    schedule
}

fn settle(schedule: &mut Schedule, now: u32, doc: u64, found: Found) {
    let host = schedule.hosts.number(HostId(doc % 2), PartitionId(0));
    let settled = Settled {
        doc: DocId(doc),
        host,
        weight: 1.0,
        found,
        is_source: false,
        is_there: true,
    };
    schedule.settled(now, &settled);
}

fn new(doc: u64) -> NewUrl {
    NewUrl {
        doc: DocId(doc),
        host: HostId(doc % 2),
        partition: PartitionId(0),
    }
}

#[test]
fn a_page_is_picked_once_until_it_is_settled() {
    let mut schedule = schedule(&settings(), 10);
    let picked: HashSet<u64> = std::iter::from_fn(|| schedule.pick(2 * DAY))
        .map(|pick| pick.doc.0)
        .collect();
    assert_eq!(picked.len(), 10);
    settle(&mut schedule, 2 * DAY, 3, Found::News);
    let again = schedule.pick(3 * DAY).expect("the page that was fetched");
    assert_eq!((again.doc, again.why), (DocId(3), Why::Worth));
    assert_eq!(schedule.pick(3 * DAY), None);
}

#[test]
fn new_pages_have_their_share_and_what_nobody_uses_is_for_the_others() {
    let mut settings = settings();
    settings.new_share = 0.25;
    let mut schedule = schedule(&settings, 40);
    (1_000..1_100).for_each(|doc| schedule.add_new(&new(doc)));
    let mut news = 0;
    for _ in 0..40 {
        let pick = schedule.pick(2 * DAY).expect("there is more");
        news += u32::from(pick.why == Why::New);
        settle(&mut schedule, DAY, pick.doc.0, Found::Unclear);
    }
    assert!((9..=11).contains(&news), "{news}");
    // Once no known page is left that may be asked, new ones have all.
    let mut alone = super::Schedule::new(&settings, 1);
    (0..20).for_each(|doc| alone.add_new(&new(doc)));
    let all: Vec<Why> = std::iter::from_fn(|| alone.pick(DAY))
        .map(|p| p.why)
        .collect();
    assert_eq!(all, [Why::New; 20]);
}

#[test]
fn what_a_person_tells_comes_first_and_a_signal_before_what_is_quiet() {
    let mut schedule = schedule(&settings(), 20);
    let said = Signal {
        doc: DocId(7),
        mark: 9,
        changed_ms: None,
    };
    // Said for the first time, and not when: it may be long ago.
    schedule.signal(&said, None);
    assert_eq!(schedule.scheduler().signals(PageId(7)), 0);
    schedule.signal(&Signal { mark: 10, ..said }, None);
    schedule.signal(&Signal { mark: 11, ..said }, None);
    assert_eq!(schedule.scheduler().signals(PageId(7)), 1);
    assert!(schedule.tell(DocId(12)) && !schedule.tell(DocId(99)));
    let first = schedule.pick(2 * DAY).map(|pick| (pick.doc.0, pick.why));
    let second = schedule.pick(2 * DAY).map(|pick| (pick.doc.0, pick.why));
    assert_eq!(
        [first, second],
        [Some((12, Why::Told)), Some((7, Why::Signal))]
    );
}

#[test]
fn a_sitemap_is_asked_for_at_its_interval() {
    let mut settings = settings();
    settings.sources_every_s = 600;
    let mut schedule = Schedule::new(&settings, 1);
    let host = schedule.hosts.number(HostId(0), PartitionId(0));
    let sitemap = Settled {
        doc: DocId(5),
        host,
        weight: 1.0,
        found: Found::Unclear,
        is_source: true,
        is_there: true,
    };
    schedule.settled(DAY, &sitemap);
    assert_eq!(schedule.pick(DAY + 599), None);
    let pick = schedule.pick(DAY + 600).expect("the sitemap");
    assert_eq!((pick.doc, pick.why), (DocId(5), Why::Source));
    assert_eq!(schedule.pick(DAY + 9_000), None);
    schedule.settled(DAY + 700, &sitemap);
    assert_eq!(schedule.pick(DAY + 1_300).map(|p| p.why), Some(Why::Source));
}

#[test]
fn a_host_that_rests_is_skipped() {
    let mut schedule = schedule(&settings(), 10);
    let first = schedule.hosts.number(HostId(0), PartitionId(0));
    schedule.hosts.get(first).rest_until(5 * DAY);
    let picked: Vec<u64> = std::iter::from_fn(|| schedule.pick(2 * DAY))
        .map(|pick| pick.doc.0)
        .collect();
    assert_eq!(picked.len(), 5);
    assert!(picked.iter().all(|doc| doc % 2 == 1), "{picked:?}");
    assert!(schedule.pick(6 * DAY).is_some());
}

#[test]
fn memory_has_a_bound() {
    let mut settings = settings();
    settings.memory_mb = 1;
    let mut schedule = Schedule::new(&settings, 1);
    let most = (1 << 20) / PAGE_RAM_BYTES;
    for doc in 0..most + 100 {
        settle(&mut schedule, DAY, doc, Found::Unclear);
    }
    assert_eq!(schedule.len() as u64, most);
    assert!(schedule.left_some);
}

/// Its host has so much to do that its other pages were told to wait for half an hour.
#[test]
fn a_signal_of_a_busy_host_is_heard_and_comes_first() {
    let mut schedule = schedule(&settings(), 2_000);
    for host in 0..2 {
        let host = schedule.hosts.number(HostId(host), PartitionId(0));
        schedule.hosts.get(host).set_delay(1_000);
    }
    let mut now = 2 * DAY;
    let mut busy = Vec::new();
    for _ in 0..10 {
        busy.extend(std::iter::from_fn(|| schedule.pick(now)).map(|pick| pick.doc.0));
    }
    assert_eq!(busy.len(), 4, "two of each host");
    let signal = Signal {
        doc: DocId(1_500),
        mark: 7,
        changed_ms: None,
    };
    schedule.signal(&signal, Some(now - 5));
    let mut picked = Vec::new();
    while !picked.contains(&1_500) {
        now += 1;
        assert!(now < 2 * DAY + 5, "{picked:?}");
        for doc in std::mem::take(&mut busy) {
            settle(&mut schedule, now, doc, Found::Quiet);
        }
        let more = std::iter::from_fn(|| schedule.pick(now)).map(|pick| pick.doc.0);
        busy.extend(more);
        picked.extend(&busy);
    }
}

/// What came may be of the time before.
#[test]
fn what_is_said_of_a_page_while_it_is_fetched_makes_it_due_once_more() {
    let mut schedule = schedule(&settings(), 20);
    let pick = |schedule: &mut Schedule, now| schedule.pick(now).map(|pick| (pick.doc.0, pick.why));
    assert!(schedule.tell(DocId(3)));
    assert_eq!(pick(&mut schedule, 2 * DAY), Some((3, Why::Told)));
    assert!(schedule.tell(DocId(3)));
    assert!(schedule.is_said_to_have_changed(DocId(3)));
    settle(&mut schedule, 2 * DAY, 3, Found::News);
    assert_eq!(pick(&mut schedule, 2 * DAY), Some((3, Why::Told)));
    assert!(schedule.ping(DocId(3)) && schedule.ping(DocId(3)) && !schedule.ping(DocId(99)));
    settle(&mut schedule, 2 * DAY, 3, Found::News);
    assert_eq!(pick(&mut schedule, 2 * DAY), Some((3, Why::Signal)));
    settle(&mut schedule, 2 * DAY, 3, Found::Quiet);
    assert!(!schedule.is_said_to_have_changed(DocId(3)));
    assert_ne!(pick(&mut schedule, 2 * DAY).map(|(doc, _)| doc), Some(3));
}

/// One page changes twice a day, and somebody says so each time; of the host's other pages that tells nothing.
#[test]
fn checks_that_somebody_asked_for_are_not_taken_for_all_that_happens() {
    let mut schedule = schedule(&settings(), 20);
    let before = schedule.prior(0);
    for n in 3..63 {
        let now = n * DAY / 2;
        match n % 2 {
            0 => assert!(schedule.tell(DocId(4))),
            _ => assert!(schedule.ping(DocId(4))),
        }
        schedule.pick(now).expect("the page");
        settle(&mut schedule, now, 4, Found::News);
    }
    let rate = schedule.scheduler().history(PageId(4)).rate(before);
    assert!((1.5..2.5).contains(&rate), "{rate}");
    assert_eq!(schedule.prior(0), before);
}
