//! Simhash (Charikar): texts that share most of their phrases have hashes that differ in few bits. Features are
//! shingles of three words, so that order matters; a word is a run of ASCII letters and digits, whatever their case,
//! and of letters that UTF-8 writes in two bytes. Scripts without spaces have no words: there each character is
//! one.
//!
//! ASCII is read 64 bytes at a time: a mask of the word bytes gives the words without a branch a byte.
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
    /// Text that waits until there is enough for whole blocks: most pieces between two tags are
    /// shorter than one.
    waiting: [u8; WAITING],
    waiting_len: usize,
    /// The start of the word being read.
    word: [u8; MAX_WORD_BYTES],
    word_len: usize,
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
            waiting: [0; WAITING],
            waiting_len: 0,
            word: [0; MAX_WORD_BYTES],
            word_len: 0,
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
        if part.len() > WAITING - self.waiting_len {
            self.read_waiting();
            if part.len() > WAITING {
                return self.read(part);
            }
        }
        self.waiting[self.waiting_len..][..part.len()].copy_from_slice(part);
        self.waiting_len += part.len();
    }

    /// Ends a run that was given in parts.
    pub fn end_run(&mut self) {
        self.push_part(b" ");
    }

    fn read_waiting(&mut self) {
        let (waiting, length) = (self.waiting, std::mem::take(&mut self.waiting_len));
        self.read(&waiting[..length]);
    }

    fn read(&mut self, text: &[u8]) {
        let mut rest = text;
        while !rest.is_empty() {
            if self.word_len == 0 && matches!(self.expect, Expect::Anything) {
                let taken = match *rest {
                    [0..0x80, ..] => self.push_blocks(rest),
                    _ => self.push_characters(rest),
                };
                rest = &rest[taken..];
            }
            // What is no whole ASCII word goes byte by byte, up to the word's end.
            while let Some((&b, tail)) = rest.split_first() {
                rest = tail;
                self.push_byte(b);
                if self.word_len == 0 && matches!(self.expect, Expect::Anything) {
                    break;
                }
            }
        }
    }

    /// The hash; 0 if there was no word.
    pub fn finish(mut self) -> u64 {
        self.end_run();
        self.read_waiting();
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

    /// Takes the whole words that `text` starts with, before any byte outside of ASCII, and returns how many
    /// bytes they and what separates them take.
    fn push_blocks(&mut self, text: &[u8]) -> usize {
        let mut at = 0;
        loop {
            let rest = &text[at..];
            let taken = match rest.first_chunk() {
                Some(block) => self.push_block(block, BLOCK),
                None => {
                    let mut block = [0; BLOCK + WORD_LOAD];
                    let length = rest.len().min(BLOCK);
                    block[..length].copy_from_slice(&rest[..length]);
                    self.push_block(&block, length)
                }
            };
            at += taken.bytes;
            // A word that the block cut off begins the next one, unless it fills a block by itself.
            if !taken.cut || taken.bytes == 0 {
                return at;
            }
        }
    }

    /// Takes the words that end within the first `length` bytes of a block.
    #[inline]
    fn push_block(&mut self, block: &[u8; BLOCK + WORD_LOAD], length: usize) -> Taken {
        let (words, high) = masks(block);
        let limit = length.min(high.trailing_zeros() as usize);
        let cut = limit == BLOCK;
        let mut starts = words & !(words << 1);
        let mut ends = !words & (words << 1);
        loop {
            let start = starts.trailing_zeros() as usize;
            let end = ends.trailing_zeros() as usize;
            if start >= limit {
                return Taken { bytes: limit, cut };
            }
            // Not `<=`: a word that touches the limit may go on behind it.
            if end >= limit {
                if cut {
                    return Taken { bytes: start, cut };
                }
                self.begin_word(&block[start..limit]);
                return Taken { bytes: limit, cut };
            }
            self.push_word(hash_in_block(block, start, end));
            starts &= starts - 1;
            ends &= ends - 1;
        }
    }

    /// Takes ASCII letters and digits that begin a word.
    fn begin_word(&mut self, letters: &[u8]) {
        let kept = letters.len().min(MAX_WORD_BYTES);
        self.word[..kept].copy_from_slice(&letters[..kept]);
        self.word_len = kept;
    }

    /// Takes the characters of three bytes that `text` starts with, and returns how many bytes they are.
    fn push_characters(&mut self, text: &[u8]) -> usize {
        let mut taken = 0;
        while let Some(&[a @ 0xE0..0xF0, b @ 0x80..0xC0, c @ 0x80..0xC0]) =
            text[taken..].first_chunk()
        {
            let low = u64::from_le_bytes([a, b, c, 0, 0, 0, 0, 0]) | FOLD & LOW_MASKS[3];
            self.push_word(mix(low, 0));
            taken += 3;
        }
        taken
    }

    /// Takes one byte. Leads and tails outside of ASCII are told apart as in UTF-8; in older encodings two
    /// bytes make a character, and where the two are confused the text next to it is hashed oddly but
    /// always in the same way.
    fn push_byte(&mut self, b: u8) {
        let is_tail = (0x80..0xC0).contains(&b);
        match std::mem::replace(&mut self.expect, Expect::Anything) {
            Expect::Letter if is_tail => return self.push_letter(b),
            Expect::Separator if is_tail => return,
            Expect::Character(1) if b >= 0x80 => {
                self.push_letter(b);
                return self.end_word();
            }
            Expect::Character(more) if is_tail => {
                self.push_letter(b);
                self.expect = Expect::Character(more - 1);
                return;
            }
            Expect::Character(_) => self.end_word(),
            _ => {}
        }
        match b {
            0..0x80 if b.is_ascii_alphanumeric() => self.push_letter(b),
            0..0x80 => self.end_word(),
            // U+0080 to U+00BF: spaces, quotation marks and signs.
            0xC2 => {
                self.end_word();
                self.expect = Expect::Separator;
            }
            0xC0..=0xDF => {
                self.push_letter(b);
                self.expect = Expect::Letter;
            }
            _ => {
                self.end_word();
                self.push_letter(b);
                self.expect = Expect::Character(match b {
                    0xF0.. => 3,
                    0xE0.. => 2,
                    _ => 1,
                });
            }
        }
    }

    fn push_letter(&mut self, b: u8) {
        if let Some(place) = self.word.get_mut(self.word_len) {
            *place = b;
            self.word_len += 1;
        }
    }

    fn end_word(&mut self) {
        if self.word_len > 0 {
            self.push_word(hash_word(&self.word, self.word_len));
            self.word_len = 0;
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
/// What a word is told from others by; the rest of a longer one does not count.
const MAX_WORD_BYTES: usize = 32;
const BLOCK: usize = 64;
const WAITING: usize = 1024;
/// Bytes loaded at a word's start whatever its length.
const WORD_LOAD: usize = 16;

/// What came of a block.
struct Taken {
    /// Words, and what separates them.
    bytes: usize,
    /// Nothing but the block's length ended it.
    cut: bool,
}

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

/// Which bytes of a block are ASCII letters or digits, and which are outside of ASCII; bit `i` for byte `i`.
#[inline]
fn masks(block: &[u8; BLOCK + WORD_LOAD]) -> (u64, u64) {
    let mut is_word = [0; BLOCK];
    let mut union = 0;
    // Plain enough to be done on sixteen bytes at once.
    for (flag, &byte) in is_word.iter_mut().zip(block) {
        let letter = (byte | 0x20).wrapping_sub(b'a') < 26;
        let digit = byte.wrapping_sub(b'0') < 10;
        *flag = if letter | digit { 0x80u8 } else { 0 };
        union |= byte;
    }
    let words = top_bits_of(&is_word);
    let highs = if union < 0x80 {
        0
    } else {
        top_bits_of(block.first_chunk().expect("a block is longer"))
    };
    (words, highs)
}

/// The top bit of each byte, as a mask.
#[inline]
fn top_bits_of(bytes: &[u8; BLOCK]) -> u64 {
    let mut mask = 0;
    for (i, eight) in bytes.as_chunks::<8>().0.iter().enumerate() {
        mask |= top_bits(u64::from_le_bytes(*eight) & repeat(0x80)) << (8 * i);
    }
    mask
}

/// The top bits of eight bytes, side by side; all other bits are 0.
#[inline]
fn top_bits(x: u64) -> u64 {
    (x >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56
}

const fn repeat(b: u8) -> u64 {
    u64::from_le_bytes([b; 8])
}

#[inline]
fn hash_in_block(block: &[u8; BLOCK + WORD_LOAD], start: usize, end: usize) -> u64 {
    let length = end - start;
    match block
        .get(start..)
        .and_then(|tail| tail.first_chunk::<WORD_LOAD>())
    {
        Some(head) if length <= WORD_LOAD => hash_16(head, length),
        _ => {
            let mut word = [0; MAX_WORD_BYTES];
            let length = length.min(MAX_WORD_BYTES);
            word[..length].copy_from_slice(&block[start..start + length]);
            hash_word(&word, length)
        }
    }
}

fn hash_word(word: &[u8; MAX_WORD_BYTES], length: usize) -> u64 {
    let (halves, _) = word.as_chunks::<WORD_LOAD>();
    let first = hash_16(&halves[0], length.min(WORD_LOAD));
    if length <= WORD_LOAD {
        return first;
    }
    first.rotate_left(17) ^ hash_16(&halves[1], length - WORD_LOAD)
}

/// The hash of the first `length` of 16 bytes, whatever the case of letters: setting one bit makes ASCII
/// lower-case, and most of Latin, too.
#[inline]
fn hash_16(bytes: &[u8; WORD_LOAD], length: usize) -> u64 {
    let (eights, _) = bytes.as_chunks::<8>();
    let low = (u64::from_le_bytes(eights[0]) | FOLD) & LOW_MASKS[length];
    let high = (u64::from_le_bytes(eights[1]) | FOLD) & LOW_MASKS[length.saturating_sub(8)];
    mix(low, high)
}

#[inline]
fn mix(low: u64, high: u64) -> u64 {
    let x = low.wrapping_mul(0x9E37_79B9_7F4A_7C15)
        ^ high.wrapping_mul(0xC2B2_AE3D_27D4_EB4F).rotate_left(23);
    x ^ (x >> 29)
}

const FOLD: u64 = repeat(0x20);

/// Masks for the first 0 to 8 bytes of a word.
const LOW_MASKS: [u64; WORD_LOAD + 1] = {
    let mut masks = [u64::MAX; WORD_LOAD + 1];
    let mut length = 0;
    while length < 8 {
        masks[length] = (1 << (8 * length)) - 1;
        length += 1;
    }
    masks
};

#[cfg(test)]
mod tests;
