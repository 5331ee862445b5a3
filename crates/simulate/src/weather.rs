//! What fails when: spells of bad weather, drawn from the seed. All of them are over at some time, so that a crawl that
//! does not give up can end.

use std::net::IpAddr;

use crate::chance::Chance;

/// Bad weather begins within this time, in milliseconds, ...
const UNTIL_MS: u64 = 90_000;
/// ... and a spell lasts at most this long.
const SPELL_MS: u64 = 40_000;
/// At most this many spells in a simulation.
const SPELLS: u64 = 6;
/// The time of day is set by at most this much at once, in milliseconds.
const SET_BY_MS: u64 = 7_200_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Connections are refused.
    Refused,
    /// Nobody answers those who connect.
    Silent,
    /// A connection takes this long, in milliseconds.
    Slow(u64),
    /// Connections break when a request is sent.
    Broken,
    /// Names are not resolved.
    Nameless,
}

#[derive(Debug, Clone)]
struct Spell {
    from_ms: u64,
    until_ms: u64,
    trouble: Trouble,
    /// `None`: everybody.
    whose: Option<IpAddr>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Weather {
    spells: Vec<Spell>,
    /// When the time of day is set, and by how much, in milliseconds.
    pub(crate) clock_steps: Vec<(u64, i64)>,
}

impl Weather {
    pub(crate) fn draw(chance: &mut Chance, addresses: &[IpAddr]) -> Self {
        let mut weather = Self::default();
        for _ in 0..chance.between(0, SPELLS + 1) {
            let from_ms = chance.between(0, UNTIL_MS);
            let trouble = match chance.between(0, 5) {
                0 => Trouble::Refused,
                1 => Trouble::Silent,
                2 => Trouble::Slow(chance.between(100, 9_000)),
                3 => Trouble::Broken,
                _ => Trouble::Nameless,
            };
            let one = chance.between(0, addresses.len() as u64) as usize;
            weather.spells.push(Spell {
                from_ms,
                until_ms: from_ms + chance.between(100, SPELL_MS),
                trouble,
                whose: (!chance.is_one_in(4)).then_some(addresses[one]),
            });
        }
        if chance.is_one_in(3) {
            let by_ms = chance.between(0, SET_BY_MS) as i64 - SET_BY_MS as i64 / 2;
            let at_ms = chance.between(1, UNTIL_MS);
            weather.clock_steps.push((at_ms, by_ms));
        }
        weather
    }

    /// What is the matter with an address now, if anything is.
    pub(crate) fn at(&self, now_ms: u64, address: IpAddr) -> impl Iterator<Item = Trouble> + '_ {
        let here = move |spell: &&Spell| {
            (spell.from_ms..spell.until_ms).contains(&now_ms)
                && spell.whose.is_none_or(|whose| whose == address)
        };
        self.spells.iter().filter(here).map(|spell| spell.trouble)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_makes_the_same_weather_and_all_of_it_ends() {
        let addresses = [IpAddr::from([127, 0, 0, 1]), IpAddr::from([127, 0, 0, 2])];
        let mut bad = 0;
        for seed in 0..200 {
            let weather = Weather::draw(&mut Chance::new(seed), &addresses);
            let again = Weather::draw(&mut Chance::new(seed), &addresses);
            assert_eq!(format!("{weather:?}"), format!("{again:?}"));
            for now_ms in (0..UNTIL_MS).step_by(500) {
                bad += weather.at(now_ms, addresses[0]).count();
            }
            let end_ms = UNTIL_MS + SPELL_MS;
            assert_eq!(weather.at(end_ms, addresses[0]).count(), 0, "seed {seed}");
        }
        assert!(bad > 200, "{bad}");
    }
}
