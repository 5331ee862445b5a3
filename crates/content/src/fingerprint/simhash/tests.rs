use proptest::prelude::*;

use super::*;

fn hash(text: &str) -> u64 {
    let mut simhash = Simhash::new();
    simhash.push_text(text.as_bytes());
    simhash.finish()
}

/// A text of made-up words, different for each seed.
fn words(seed: u64, count: usize) -> Vec<String> {
    let mut x = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..count)
        .map(|_| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            // A vocabulary of 4096 words: texts share words, as real ones do, but not phrases.
            format!("w{:x}", (x >> 20) % 4096)
        })
        .collect()
}

#[test]
fn no_words_no_hash() {
    assert_eq!(Simhash::new().finish(), 0);
    assert_eq!(hash(" \n .,;- \u{a0}\u{ab}"), 0);
    for text in ["a", "a b", "a b c", "\u{30c4}", "\u{e9}"] {
        assert_ne!(hash(text), 0, "{text}");
    }
    assert_ne!(hash("a"), hash("b"));
    assert_ne!(hash("a b"), hash("b a"));
    assert_ne!(hash("a b"), hash("b"));
}

#[test]
fn case_and_punctuation_do_not_matter() {
    let plain = hash("the quick brown fox jumps over the lazy dog");
    assert_eq!(
        hash("The QUICK, brown fox -- jumps\nover 'the' lazy dog!"),
        plain
    );
    assert_ne!(hash("the quick brown fox jumps over the lazy cat"), plain);
    assert_eq!(
        hash("caf\u{e9} au lait"),
        hash("CAF\u{e9}\u{a0}\u{ab}au lait")
    );
}

#[test]
fn near_duplicates_are_near_and_others_far() {
    let (mut near_sum, mut near_within_6, mut far_over_20) = (0, 0, 0);
    const TEXTS: u64 = 200;
    for seed in 1..=TEXTS {
        let text = words(seed, 500);
        let mut changed = text.clone();
        changed[(seed as usize * 37) % 500] = "changed".into();
        let near = distance(hash(&text.join(" ")), hash(&changed.join(" ")));
        let far = distance(
            hash(&text.join(" ")),
            hash(&words(seed + TEXTS, 500).join(" ")),
        );
        near_sum += near;
        near_within_6 += u64::from(near <= 6);
        far_over_20 += u64::from(far > 20);
    }
    println!(
        "one word of 500 changed: {:.1} bits on average, {near_within_6} of {TEXTS} within 6; unrelated: \
         {far_over_20} of {TEXTS} over 20",
        f64::from(near_sum) / TEXTS as f64
    );
    assert!(near_within_6 * 100 >= TEXTS * 97);
    assert!(far_over_20 * 100 >= TEXTS * 97);
}

#[test]
fn texts_without_spaces_compare_too() {
    // Hiragana and kanji by a small generator; one character of 600 changed.
    let text = |seed: u64| -> String {
        words(seed, 600)
            .iter()
            .map(|w| u32::from_str_radix(&w[1..], 16).unwrap_or(0))
            .filter_map(|n| char::from_u32(0x4E00 + n))
            .collect()
    };
    let original = text(1);
    let changed: String = original
        .chars()
        .enumerate()
        .map(|(i, c)| if i == 300 { '\u{3042}' } else { c })
        .collect();
    assert!(distance(hash(&original), hash(&changed)) <= 6);
    assert!(distance(hash(&original), hash(&text(2))) > 16);
}

/// The same sums with 64 plain counters.
#[test]
fn bit_sliced_counts_equal_plain_ones() {
    for n in [1usize, 2, 15, 16, 17, 31, 32, 33, 100, 1000, 4099] {
        let features: Vec<u64> = (0..n as u64).map(|i| shingle(i, 7, i * i)).collect();
        let mut sliced = BitCounts::default();
        let (batches, rest) = features.as_chunks::<BATCH>();
        batches.iter().for_each(|batch| sliced.add_batch(batch));
        rest.iter().for_each(|&feature| sliced.add_one(feature));
        let mut expected = 0u64;
        for bit in 0..64 {
            let count = features.iter().filter(|f| *f >> bit & 1 == 1).count();
            expected |= u64::from(2 * count > n) << bit;
        }
        assert_eq!(sliced.majority(), expected, "{n} features");
    }
}

/// Stored hashes must stay comparable: a change of this value is a change of format.
#[test]
fn hashes_are_stable() {
    let text = "Many crawl-clients report what they found, seed-servers keep the chart.";
    assert_eq!(hash(text), STABLE);
}

const STABLE: u64 = 918_802_002_803_277_838;

proptest! {
    #[test]
    fn masks_say_what_each_byte_is(bytes in prop::collection::vec(any::<u8>(), BLOCK + WORD_LOAD)) {
        let block: &[u8; BLOCK + WORD_LOAD] = bytes.first_chunk().expect("as many as were asked for");
        let mut expected = (0, 0);
        for (i, byte) in block[..BLOCK].iter().enumerate() {
            expected.0 |= u64::from(byte.is_ascii_alphanumeric()) << i;
            expected.1 |= u64::from(!byte.is_ascii()) << i;
        }
        prop_assert_eq!(masks(block), expected);
    }

    #[test]
    fn splits_do_not_matter(text: String, extra: Vec<u8>, cuts in prop::collection::vec(0usize..400, 0..6)) {
        let mut bytes = text.into_bytes();
        bytes.extend(extra);
        let mut whole = Simhash::new();
        whole.push_text(&bytes);
        let mut cuts: Vec<usize> = cuts.into_iter().filter(|&c| c <= bytes.len()).collect();
        cuts.sort_unstable();
        let mut parts = Simhash::new();
        let mut from = 0;
        for cut in cuts {
            parts.push_part(&bytes[from..cut]);
            from = cut;
        }
        parts.push_part(&bytes[from..]);
        prop_assert_eq!(parts.finish(), whole.finish());
    }

    #[test]
    fn runs_may_end_between_words(words in prop::collection::vec("[a-zA-Z0-9\u{e9}\u{4e00}-\u{4e10}]{1,9}", 0..40), size in 1usize..7) {
        let mut whole = Simhash::new();
        whole.push_text(words.join(" ").as_bytes());
        let mut runs = Simhash::new();
        for run in words.chunks(size) {
            runs.push_text(run.join(" ").as_bytes());
        }
        prop_assert_eq!(runs.finish(), whole.finish());
    }
}
