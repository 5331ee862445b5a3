//! Arithmetic that turns the seed into every choice of the simulated Web: a hash for "what is at this place" and a short
//! stream of draws from there. Not for anything secret.

/// Mixes a seed with two coordinates and a purpose into 64 well-spread bits.
pub(crate) fn mix(seed: u64, a: u64, b: u64, purpose: u64) -> u64 {
    let x = seed
        ^ a.wrapping_mul(0x9E37_79B9_7F4A_7C15)
        ^ b.wrapping_mul(0xC2B2_AE3D_27D4_EB4F)
        ^ purpose.wrapping_mul(0x1656_67B1_9E37_79F9);
    finish(x)
}

/// The splitmix64 finisher: every input bit reaches every output bit.
fn finish(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// A stream of draws that depends only on where it starts.
#[derive(Clone, Debug)]
pub(crate) struct Draw(u64);

impl Draw {
    pub(crate) fn at(seed: u64, a: u64, b: u64, purpose: u64) -> Self {
        Draw(mix(seed, a, b, purpose))
    }

    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        finish(self.0)
    }

    /// Uniform in [0, 1).
    pub(crate) fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub(crate) fn chance(&mut self, share: f64) -> bool {
        share > 0.0 && self.unit() < share
    }

    /// Uniform in [0, n); 0 when n is 0.
    pub(crate) fn below(&mut self, n: u32) -> u32 {
        (((self.bits() >> 32) * u64::from(n)) >> 32) as u32
    }

    /// `mean` moved by up to `spread` (a share of it) either way.
    pub(crate) fn around(&mut self, mean: f64, spread: f64) -> f64 {
        mean * (1.0 + spread.clamp(0.0, 1.0) * (2.0 * self.unit() - 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_depend_on_the_place_and_stay_in_range() {
        let first: Vec<u64> = {
            let mut d = Draw::at(1, 2, 3, 4);
            (0..8).map(|_| d.bits()).collect()
        };
        let mut again = Draw::at(1, 2, 3, 4);
        assert!(first.iter().all(|x| *x == again.bits()));
        let mut other = Draw::at(1, 2, 3, 5);
        assert_ne!(first[0], other.bits());
        for n in [1, 2, 7, 1000] {
            assert!((0..1000).all(|_| other.below(n) < n));
        }
        let mean = (0..10_000).map(|_| other.unit()).sum::<f64>() / 10_000.0;
        assert!((0.48..0.52).contains(&mean), "{mean}");
    }
}
