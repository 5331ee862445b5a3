//! Simhash (Charikar): texts that share most of their phrases have hashes that differ in few bits. Features are
//! shingles of three words, so that order matters; a word is a run of ASCII letters and digits, whatever their case,
//! and of letters that UTF-8 writes in two bytes. Scripts without spaces have no words: there each character is
//! one.
//!
//! A count for each of the 64 bits is kept bit-sliced: plane `i` holds bit `i` of all 64 counts, and
//! sixteen features are added at once by carry-save adders, some five instructions a feature instead
//! of 64 additions.

/// How many bits two hashes differ in: 0 for equal texts, about 32 for unrelated ones.
pub fn distance(a: u64, b: u64) -> u32 {
    (a ^ b).count_ones()
}

/// Collects the text of a document.
#[derive(Clone)]
pub struct Simhash {
    /// Hash of the word being read; 0: none is.
    word: u64,
    expect: Expect,
    /// Hashes of the last two words.
    before: [u64; 2],
    words: u64,
    pending: [u64; BATCH],
    pending_len: usize,
    counts: BitCounts,
}

impl Simhash {
    pub fn new() -> Simhash {
        Simhash {
            word: 0,
            expect: Expect::Anything,
            before: [0; 2],
            words: 0,
            pending: [0; BATCH],
            pending_len: 0,
            counts: BitCounts::default(),
        }
    }

    /// Takes a run of text. Its end is the end of a word: how a text is cut into runs does not matter
    /// as long as no word is cut.
    pub fn push_text(&mut self, run: &[u8]) {
        self.push_part(run);
        self.end_run();
    }

    /// Takes a piece of a run that may go on in the middle of a word.
    pub fn push_part(&mut self, part: &[u8]) {
        let mut rest = part;
        while let Some(&b) = rest.first() {
            if b < 0x80 {
                rest = self.push_ascii(rest);
            } else {
                self.push_high(b);
                rest = &rest[1..];
            }
        }
    }

    /// Ends a run that was given in parts.
    pub fn end_run(&mut self) {
        self.expect = Expect::Anything;
        self.end_word();
    }

    /// The hash; 0 if there was no word.
    pub fn finish(mut self) -> u64 {
        self.end_run();
        if self.words == 0 {
            return 0;
        }
        if self.words < SHINGLE_WORDS {
            // Too short for a shingle: what there is of one.
            let feature = shingle(0, self.before[0], self.before[1]);
            self.push_feature(feature);
        }
        let rest = self.pending_len;
        for &feature in &self.pending[..rest] {
            self.counts.add_one(feature);
        }
        match self.counts.majority() {
            0 => 1,
            hash => hash,
        }
    }

    /// Takes the ASCII that `text` starts with, and returns the rest.
    #[inline]
    fn push_ascii<'t>(&mut self, text: &'t [u8]) -> &'t [u8] {
        if matches!(self.expect, Expect::Character(_)) {
            self.end_word();
        }
        self.expect = Expect::Anything;
        let mut word = self.word;
        for (at, &b) in text.iter().enumerate() {
            let value = BYTE_VALUES[usize::from(b)];
            if value != 0 {
                word = word.rotate_left(5) ^ value;
            } else if b < 0x80 {
                if word != 0 {
                    self.push_word(word);
                    word = 0;
                }
            } else {
                self.word = word;
                return &text[at..];
            }
        }
        self.word = word;
        &[]
    }

    /// Takes a byte outside of ASCII. Leads and tails are told apart as in UTF-8; in older encodings two
    /// bytes make a character, and where the two are confused the text next to it is hashed oddly but
    /// always in the same way.
    fn push_high(&mut self, b: u8) {
        let is_tail = b < 0xC0;
        let value = HIGH_VALUES[usize::from(b & 0x7F)];
        match self.expect {
            Expect::Letter if is_tail => {
                self.word = self.word.rotate_left(5) ^ value;
                self.expect = Expect::Anything;
                return;
            }
            Expect::Separator if is_tail => {
                self.expect = Expect::Anything;
                return;
            }
            Expect::Character(more) if is_tail || more == 1 => {
                self.word = self.word.rotate_left(5) ^ value;
                self.expect = Expect::Character(more - 1);
                if more == 1 {
                    self.end_run();
                }
                return;
            }
            _ => {}
        }
        match b {
            // U+0080 to U+00BF: spaces, quotation marks and signs.
            0xC2 => {
                self.end_word();
                self.expect = Expect::Separator;
            }
            0xC0..=0xDF => {
                self.word = self.word.rotate_left(5) ^ value;
                self.expect = Expect::Letter;
            }
            _ => {
                self.end_word();
                self.word = value;
                self.expect = Expect::Character(match b {
                    0xF0.. => 3,
                    0xE0.. => 2,
                    _ => 1,
                });
            }
        }
    }

    fn end_word(&mut self) {
        if self.word != 0 {
            self.push_word(self.word);
            self.word = 0;
        }
    }

    #[inline]
    fn push_word(&mut self, hash: u64) {
        let [first, second] = self.before;
        self.before = [second, hash];
        self.words += 1;
        if self.words >= SHINGLE_WORDS {
            self.push_feature(shingle(first, second, hash));
        }
    }

    #[inline]
    fn push_feature(&mut self, feature: u64) {
        self.pending[self.pending_len] = feature;
        self.pending_len += 1;
        if self.pending_len == BATCH {
            self.counts.add_batch(&self.pending);
            self.pending_len = 0;
        }
    }
}

impl Default for Simhash {
    fn default() -> Simhash {
        Simhash::new()
    }
}

const SHINGLE_WORDS: u64 = 3;
const BATCH: usize = 16;

/// What the bytes read last call for.
#[derive(Clone, Copy)]
enum Expect {
    Anything,
    /// The second byte of a letter that is part of a word.
    Letter,
    /// The second byte of a character between words.
    Separator,
    /// So many more bytes of a character that is a word by itself.
    Character(u8),
}

fn shingle(first: u64, second: u64, third: u64) -> u64 {
    let mut x = first
        .wrapping_mul(0x9E37_79B9_7F4A_7C15)
        .wrapping_add(second.wrapping_mul(0xC2B2_AE3D_27D4_EB4F))
        .wrapping_add(third);
    x = (x ^ (x >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    x = (x ^ (x >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    x ^ (x >> 32)
}

/// Counts for each of 64 bits, bit-sliced.
#[derive(Clone)]
struct BitCounts {
    planes: [u64; PLANES],
    added: u64,
}

/// Counts up to 2^40: more words than a document that we take has bytes.
const PLANES: usize = 40;

impl Default for BitCounts {
    fn default() -> BitCounts {
        BitCounts {
            planes: [0; PLANES],
            added: 0,
        }
    }
}

impl BitCounts {
    fn add_one(&mut self, feature: u64) {
        self.added += 1;
        self.ripple(0, feature);
    }

    /// Adds sixteen features: eight pairs into the ones, their carries into the twos, and so on.
    fn add_batch(&mut self, features: &[u64; BATCH]) {
        self.added += BATCH as u64;
        let mut eights = [0; 2];
        for (half, eight) in features.as_chunks::<8>().0.iter().zip(&mut eights) {
            let mut fours = [0; 2];
            for (quarter, four) in half.as_chunks::<4>().0.iter().zip(&mut fours) {
                let a = carry_save(&mut self.planes[0], quarter[0], quarter[1]);
                let b = carry_save(&mut self.planes[0], quarter[2], quarter[3]);
                *four = carry_save(&mut self.planes[1], a, b);
            }
            *eight = carry_save(&mut self.planes[2], fours[0], fours[1]);
        }
        let sixteens = carry_save(&mut self.planes[3], eights[0], eights[1]);
        self.ripple(4, sixteens);
    }

    fn ripple(&mut self, from: usize, mut carry: u64) {
        for plane in &mut self.planes[from..] {
            if carry == 0 {
                return;
            }
            let next = *plane & carry;
            *plane ^= carry;
            carry = next;
        }
    }

    /// The bits that more than half of the features had: each count compared with half of the number
    /// of features, all 64 at once, from the highest plane down.
    fn majority(&self) -> u64 {
        let half = self.added / 2;
        let mut greater = 0u64;
        let mut equal = u64::MAX;
        for (place, &plane) in self.planes.iter().enumerate().rev() {
            if half >> place & 1 == 1 {
                equal &= plane;
            } else {
                greater |= equal & plane;
                equal &= !plane;
            }
        }
        greater
    }
}

/// Adds two bits to a one-bit sum in each of 64 places; returns the carries.
#[inline]
fn carry_save(sum: &mut u64, a: u64, b: u64) -> u64 {
    let half = *sum ^ a;
    let carry = (*sum & a) | (half & b);
    *sum = half ^ b;
    carry
}

/// A random value for each letter and digit, the same for both cases; 0 for what is not part of a word
/// and for bytes outside of ASCII.
const BYTE_VALUES: [u64; 256] = {
    let mut values = [0; 256];
    let mut b = 0u8;
    while b < 0x80 {
        if b.is_ascii_alphanumeric() {
            values[b as usize] = random(b.to_ascii_lowercase());
        }
        b += 1;
    }
    values
};

const HIGH_VALUES: [u64; 128] = {
    let mut values = [0; 128];
    let mut i = 0;
    while i < 128 {
        values[i] = random(0x80 + i as u8);
        i += 1;
    }
    values
};

/// SplitMix64's output for a seed. Stored hashes depend on it: changing it makes them incomparable.
const fn random(seed: u8) -> u64 {
    let mut x = (seed as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests;
