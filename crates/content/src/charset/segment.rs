//! One piece of a page (an attribute, a title) as UTF-8: in the page's charset where it fits, in
//! the Japanese charset that does fit where it does not.

use std::borrow::Cow;

use encoding_rs::{EUC_JP, Encoding, ISO_2022_JP, UTF_8};
use memchr::memchr;

use super::japanese::{ESC, is_hardly_chance, is_japanese, is_plausible, likelier};

/// `bytes`, a piece of a page in `page` charset, as UTF-8. Never fails: what no charset explains
/// becomes U+FFFD.
///
/// The piece is as the scanner hands it out: the bytes of ISO-2022-JP runs have their high bit
/// set, their escapes are still there.
pub fn decode_segment<'a>(bytes: &'a [u8], page: &'static Encoding) -> Cow<'a, str> {
    if memchr(ESC, bytes).is_some() {
        return Cow::Owned(decode_escaped(bytes, page));
    }
    if let Ok(text) = std::str::from_utf8(bytes)
        && (page == UTF_8 || bytes.is_ascii())
    {
        return Cow::Borrowed(text);
    }
    encoding_of(bytes, page)
        .decode_without_bom_handling(bytes)
        .0
}

/// The encoding to read `bytes` by, which are not all ASCII.
fn encoding_of(bytes: &[u8], page: &'static Encoding) -> &'static Encoding {
    let fits = decodes(bytes, page);
    if fits && !is_japanese(page) {
        return page;
    }
    let reads_well = fits && is_plausible(bytes, page);
    if let Ok(text) = std::str::from_utf8(bytes)
        && (!reads_well || (page != EUC_JP && is_hardly_chance(text)))
    {
        return UTF_8;
    }
    // Half-width katakana of EUC-JP read well as kanji of Shift_JIS. The other way round it has to be
    // weighed: all of EUC-JP can be read as half-width katakana of Shift_JIS.
    if fits && page == EUC_JP {
        return page;
    }
    let Some(other) = likelier(bytes, page) else {
        return page;
    };
    // A page that says it is Japanese may mix charsets; of any other that is hard to believe.
    if other != page && (is_japanese(page) || is_plausible(bytes, other)) && decodes(bytes, other) {
        return other;
    }
    page
}

fn decodes(bytes: &[u8], encoding: &'static Encoding) -> bool {
    encoding
        .decode_without_bom_handling_and_without_replacement(bytes)
        .is_some()
}

/// Splits at the escapes: what follows one that opens a run is ISO-2022-JP, up to the next escape
/// or the line's end.
fn decode_escaped(bytes: &[u8], page: &'static Encoding) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    let mut rest = bytes;
    while let Some(at) = memchr(ESC, rest) {
        text.push_str(&decode_segment(&rest[..at], page));
        rest = &rest[at..];
        match rest.get(1..3) {
            Some(b"$@" | b"$B" | b"(I") => {
                let ends = |b: &u8| matches!(*b, ESC | b'\n' | b'\r');
                let end = 3 + rest[3..].iter().position(ends).unwrap_or(rest.len() - 3);
                let mut run = rest[..end].to_vec();
                run[3..].iter_mut().for_each(|b| *b &= 0x7f);
                text.push_str(&ISO_2022_JP.decode_without_bom_handling(&run).0);
                rest = &rest[end..];
            }
            Some(b"(B" | b"(J") => rest = &rest[3..],
            _ => {
                text.push(char::from(ESC));
                rest = &rest[1..];
            }
        }
    }
    text.push_str(&decode_segment(rest, page));
    text
}

#[cfg(test)]
mod tests {
    use super::super::EscapeMask;
    use super::*;
    use encoding_rs::{SHIFT_JIS, WINDOWS_1252};

    #[test]
    fn all_three_in_one_piece_of_a_page() {
        let (jis, _, _) = ISO_2022_JP.encode("漢字<と");
        let mut bytes = jis.into_owned();
        EscapeMask::default().apply(&mut bytes);
        let (sjis, _, _) = SHIFT_JIS.encode("日本語");
        bytes.extend_from_slice(&sjis);
        assert_eq!(decode_segment(&bytes, EUC_JP), "漢字<と日本語");
        assert_eq!(decode_segment(&bytes, UTF_8), "漢字<と日本語");
        assert_eq!(decode_segment(&bytes, ISO_2022_JP), "漢字<と日本語");
    }

    #[test]
    fn other_pages_keep_their_own_reading() {
        assert_eq!(decode_segment(b"fran\xe7ais", WINDOWS_1252), "français");
        assert_eq!(decode_segment(b"fran\xe7ais", UTF_8), "fran\u{fffd}ais");
        assert_eq!(decode_segment("日本".as_bytes(), SHIFT_JIS), "日本");
        assert_eq!(decode_segment(b"\x1b[1mx", UTF_8), "\x1b[1mx");
    }

    #[test]
    fn half_width_katakana_stay_in_the_charset_that_is_declared() {
        let words = [
            "ｱﾝｹｰﾄ",
            "ﾃﾞｰﾀ",
            "ﾊﾟｿｺﾝ",
            "ﾒﾆｭｰ",
            "ﾎｰﾑ",
            "ﾘﾝｸ",
            "ｹﾞｰﾑ",
            "ﾆｭｰｽ",
            "ｻｲﾄﾏｯﾌﾟ",
            "ｶﾅ",
            "ﾃｽﾄ",
            "ﾌﾟﾛｸﾞﾗﾑ",
            "｢ｺﾝﾆﾁﾊ｣",
            "ｱ",
            "ﾁｮｺﾚｰﾄ",
            "ﾃｨｯｼｭ",
        ];
        for page in [EUC_JP, SHIFT_JIS] {
            for word in words {
                let (bytes, _, _) = page.encode(word);
                assert_eq!(decode_segment(&bytes, page), word, "{}", page.name());
            }
        }
    }

    #[test]
    fn shift_jis_that_is_utf8_by_chance_stays_shift_jis() {
        for word in ["閾値", "ﾃｱ", "ﾃｨ"] {
            let (bytes, _, _) = SHIFT_JIS.encode(word);
            assert!(std::str::from_utf8(&bytes).is_ok(), "{word}");
            assert_eq!(decode_segment(&bytes, SHIFT_JIS), word);
        }
    }
}
