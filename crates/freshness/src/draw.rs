//! Pages by seed: how often they change, how important they are, and when.

/// Random numbers by seed (SplitMix64): the same seed gives the same pages on every machine.
#[derive(Clone, Debug)]
pub struct Draw(u64);

impl Draw {
    pub fn new(seed: u64) -> Draw {
        Draw(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d)
    }

    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Above 0, below 1.
    pub fn share(&mut self) -> f64 {
        ((self.bits() >> 12) as f64 + 0.5) / (1u64 << 52) as f64
    }

    fn normal(&mut self) -> f64 {
        (-2.0 * self.share().ln()).sqrt() * (std::f64::consts::TAU * self.share()).cos()
    }

    fn exponential(&mut self) -> f64 {
        -self.share().ln()
    }

    /// At least 1, with P(X > x) = x^(−exponent).
    fn pareto(&mut self, exponent: f64) -> f64 {
        self.share().powf(-1.0 / exponent)
    }
}

/// A page of a simulation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SimulatedPage {
    /// Changes a day, on average.
    pub rate: f64,
    /// 1 on average.
    pub importance: f64,
}

/// How rates and importance are distributed, and how changes are over a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Population {
    /// Rates log-normal around 0.1 a day with σ 1.7, importance Pareto.
    LogNormal,
    /// Rates Pareto from 0.02 a day on, importance Pareto.
    Pareto,
    /// One page in ten changes five times a day, the others once in fifty days.
    TwoPoint,
    /// Rates uniform up to 1 a day, importance uniform.
    Uniform,
    /// Log-normal, and important pages change more often.
    Correlated,
    /// Log-normal; changes come by day, hardly at night.
    Daily,
}

impl Population {
    pub const ALL: [Population; 6] = [
        Population::LogNormal,
        Population::Pareto,
        Population::TwoPoint,
        Population::Uniform,
        Population::Correlated,
        Population::Daily,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Population::LogNormal => "log-normal",
            Population::Pareto => "pareto",
            Population::TwoPoint => "two-point",
            Population::Uniform => "uniform",
            Population::Correlated => "correlated",
            Population::Daily => "daily",
        }
    }

    /// The pages of this population by a seed.
    pub fn pages(self, number: usize, seed: u64) -> Vec<SimulatedPage> {
        let mut draw = Draw::new(seed);
        let mut pages: Vec<SimulatedPage> = (0..number).map(|_| self.page(&mut draw)).collect();
        let all: f64 = pages.iter().map(|page| page.importance).sum();
        for page in &mut pages {
            page.importance *= number as f64 / all;
        }
        pages
    }

    fn page(self, draw: &mut Draw) -> SimulatedPage {
        let rate = match self {
            Population::LogNormal | Population::Correlated | Population::Daily => {
                0.1 * (1.7 * draw.normal()).exp()
            }
            Population::Pareto => 0.02 * draw.pareto(0.9),
            Population::TwoPoint if draw.share() < 0.1 => 5.0,
            Population::TwoPoint => 0.02,
            Population::Uniform => draw.share(),
        };
        let importance = match self {
            Population::Uniform => draw.share(),
            Population::Correlated => draw.pareto(1.5) * rate.sqrt(),
            _ => draw.pareto(1.5),
        };
        // Within what a crawler could tell apart.
        let rate = rate.clamp(1e-3, 100.0);
        SimulatedPage { rate, importance }
    }

    /// The time of a page's first change after `days`.
    pub(crate) fn first_change(self, rate: f64, mut days: f64, draw: &mut Draw) -> f64 {
        if self != Population::Daily {
            return days + draw.exponential() / rate;
        }
        // At most twice the mean rate, at noon; of such changes those by night are left out.
        loop {
            days += draw.exponential() / (2.0 * rate);
            let by_day = (1.0 - (std::f64::consts::TAU * days).cos()) / 2.0;
            if draw.share() < by_day {
                return days;
            }
        }
    }
}
