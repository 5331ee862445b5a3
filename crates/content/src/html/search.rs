//! The search for one byte that is mostly near: the gaps between tags and the values of attributes
//! are short, and calling out for them costs more than looking.

use memchr::memchr;

/// Where `needle` first is in `bytes`.
#[inline(always)]
pub(super) fn find(needle: u8, bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    let Some((word, rest)) = bytes.split_first_chunk::<8>() else {
        return bytes.iter().position(|&byte| byte == needle);
    };
    // A byte that equals the needle becomes zero; the lowest zero byte gets its high bit set.
    let differs = u64::from_le_bytes(*word) ^ (ONES * u64::from(needle));
    let zeros = differs.wrapping_sub(ONES) & !differs & HIGHS;
    if zeros != 0 {
        return Some(zeros.trailing_zeros() as usize / 8);
    }
    memchr(needle, rest).map(|at| at + 8)
}

#[cfg(test)]
mod tests {
    use super::find;

    #[test]
    fn finds_the_first() {
        for length in 0..40 {
            let mut bytes = vec![b'<' ^ 1; length];
            assert_eq!(find(b'<', &bytes), None);
            for at in (0..length).rev() {
                bytes[at] = b'<';
                assert_eq!(find(b'<', &bytes), Some(at));
            }
        }
        assert_eq!(find(0, &[0x80, 0x01, 0, 0, 1, 1, 1, 1]), Some(2));
    }
}
