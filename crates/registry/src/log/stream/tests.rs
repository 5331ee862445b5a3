//! Streams over a network that loses, repeats and reorders what it carries.

use super::*;

fn origin(source: u16, number: u64, predecessor: u64) -> Origin {
    Origin {
        source: PartitionId(source),
        number,
        predecessor,
    }
}

#[test]
fn a_forward_after_a_gap_is_held_until_the_gap_is_closed() {
    let mut inbox = Inbox::new(Heard::default(), 8);
    assert_eq!(inbox.arrive(origin(1, 4, 0), "a"), Received::Ready("a"));
    let ask = Ask {
        source: PartitionId(1),
        after: 4,
        up_to: 5,
    };
    assert_eq!(inbox.arrive(origin(1, 6, 5), "c"), Received::Held(ask));
    assert_eq!(inbox.arrive(origin(1, 6, 5), "c"), Received::Known);
    // Another source's stream is none of its business.
    assert_eq!(inbox.arrive(origin(2, 6, 0), "x"), Received::Ready("x"));
    assert_eq!(inbox.released(PartitionId(2)), None);
    assert_eq!(inbox.arrive(origin(1, 5, 4), "b"), Received::Ready("b"));
    let released = inbox.released(PartitionId(1));
    assert_eq!(released, Some((origin(1, 6, 5), "c")));
    assert_eq!(inbox.released(PartitionId(1)), None);
    assert_eq!(inbox.arrive(origin(1, 5, 4), "b"), Received::Known);
    assert_eq!(inbox.heard().last(PartitionId(1)), 6);
}

#[test]
fn a_source_that_gives_numbers_twice_is_found_out() {
    let mut heard: Heard = [(3, 10)].into_iter().collect();
    assert_eq!(heard.hear(&origin(3, 11, 7)), Arrival::Astray);
    assert_eq!(heard.last(PartitionId(3)), 10);
}

#[test]
fn what_finds_no_room_is_dropped_and_asked_for() {
    let mut inbox = Inbox::new(Heard::default(), 1);
    assert!(matches!(
        inbox.arrive(origin(0, 2, 1), 2),
        Received::Held(_)
    ));
    let dropped = inbox.arrive(origin(0, 3, 2), 3);
    assert!(matches!(dropped, Received::Dropped(_)));
    let gap = inbox
        .missing(PartitionId(0), 3)
        .map(|ask| (ask.after, ask.up_to));
    assert_eq!(gap, Some((0, 1)));
    assert_eq!(inbox.arrive(origin(0, 1, 0), 1), Received::Ready(1));
    assert!(inbox.released(PartitionId(0)).is_some());
    // The end of the stream is missing, and only the source can say so.
    let gap = inbox
        .missing(PartitionId(0), 3)
        .map(|ask| (ask.after, ask.up_to));
    assert_eq!(gap, Some((2, 3)));
    assert_eq!(inbox.missing(PartitionId(0), 2), None);
}

/// A small generator of its own: the same schedule for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 33) % bound
    }
}

const SOURCES: u16 = 3;

/// All streams to one destination, and what is on its way.
struct Network {
    random: Random,
    sent: Vec<Vec<Origin>>,
    under_way: Vec<Origin>,
}

impl Network {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let streams = (0..SOURCES).map(|source| {
            let (mut stream, mut last) = (Vec::new(), 0);
            for _ in 0..random.below(40) {
                let number = last + 1 + random.below(5);
                stream.push(origin(source, number, last));
                last = number;
            }
            stream
        });
        let sent: Vec<_> = streams.collect();
        let under_way = sent.concat();
        Self {
            random,
            sent,
            under_way,
        }
    }

    /// One of those that are under way, whichever: lost, or delivered, and perhaps once more later.
    fn carry(&mut self) -> Option<Origin> {
        let at = self.random.below(self.under_way.len() as u64) as usize;
        let origin = self.under_way.swap_remove(at);
        match self.random.below(8) {
            0 => return None,
            1 => self.under_way.push(origin),
            _ => {}
        }
        Some(origin)
    }

    fn send_again(&mut self, ask: Ask) {
        let wanted = |o: &&Origin| o.number > ask.after && o.number <= ask.up_to;
        let stream = &self.sent[usize::from(ask.source.0)];
        self.under_way.extend(stream.iter().filter(wanted));
    }
}

#[test]
fn whatever_the_network_does_each_forward_comes_once_and_in_order() {
    let (mut held, mut dropped) = (0, 0);
    for seed in 0..2_000 {
        let mut network = Network::new(seed);
        let bound = 1 + network.random.below(6) as usize;
        let mut inbox = Inbox::new(Heard::default(), bound);
        let mut came: Vec<Vec<Origin>> = vec![Vec::new(); SOURCES.into()];
        let mut rounds = 0;
        while came != network.sent {
            rounds += 1;
            assert!(rounds < 20_000, "seed {seed} comes to no end");
            if network.under_way.is_empty() {
                // Sources say now and then how far they are.
                for stream in network.sent.clone() {
                    let Some(last) = stream.last() else { continue };
                    let ask = inbox.missing(last.source, last.number);
                    ask.into_iter().for_each(|ask| network.send_again(ask));
                }
            }
            let Some(origin) = network.carry() else {
                continue;
            };
            let stream = &mut came[usize::from(origin.source.0)];
            match inbox.arrive(origin, origin) {
                Received::Ready(item) => {
                    stream.push(item);
                    while let Some((origin, item)) = inbox.released(item.source) {
                        assert_eq!(origin, item);
                        stream.push(item);
                    }
                }
                Received::Known => {}
                Received::Held(ask) => {
                    held += 1;
                    if network.random.below(4) == 0 {
                        network.send_again(ask);
                    }
                }
                Received::Dropped(_) => dropped += 1,
                Received::Astray => panic!("seed {seed}: nothing is numbered twice"),
            }
            assert!(inbox.held.len() <= bound);
        }
        assert!(inbox.held.is_empty(), "seed {seed}");
    }
    assert!(
        held > 1_000 && dropped > 1_000,
        "{held} held, {dropped} dropped"
    );
}
