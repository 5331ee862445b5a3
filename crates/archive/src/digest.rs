//! Digests as WARC writes them: `sha1:` and base32. Reads the other spellings in use.

use data_encoding::{BASE32, BASE64, BASE64URL, HEXLOWER_PERMISSIVE};
use sha1::{Digest, Sha1};

pub(crate) const LABEL: &str = "sha1:";

pub(crate) fn sha1(bytes: &[u8]) -> [u8; 20] {
    Sha1::digest(bytes).into()
}

/// `sha1:` and 32 letters.
pub(crate) fn labelled(sha1: &[u8; 20]) -> String {
    let mut out = String::with_capacity(LABEL.len() + 32);
    out.push_str(LABEL);
    BASE32.encode_append(sha1, &mut out);
    out
}

/// The 20 bytes of a labelled SHA-1, in base32, hexadecimal or base64.
pub(crate) enum Parsed {
    Sha1([u8; 20]),
    /// Some other algorithm, which is no fault.
    OtherAlgorithm,
    Malformed,
}

pub(crate) fn parse(value: &str) -> Parsed {
    let Some((algorithm, text)) = value.split_once(':') else {
        return Parsed::Malformed;
    };
    if algorithm.is_empty() || text.is_empty() {
        return Parsed::Malformed;
    }
    if !algorithm.eq_ignore_ascii_case("sha1") && !algorithm.eq_ignore_ascii_case("sha-1") {
        return Parsed::OtherAlgorithm;
    }
    let bytes = match text.len() {
        32 => BASE32.decode(text.to_ascii_uppercase().as_bytes()).ok(),
        40 => HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok(),
        28 => BASE64
            .decode(text.as_bytes())
            .or_else(|_| BASE64URL.decode(text.as_bytes()))
            .ok(),
        _ => None,
    };
    match bytes.and_then(|bytes| bytes.try_into().ok()) {
        Some(sha1) => Parsed::Sha1(sha1),
        None => Parsed::Malformed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_spellings_of_the_empty_digest() {
        let empty = sha1(b"");
        assert_eq!(labelled(&empty), "sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ");
        for text in [
            "sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ",
            "SHA1:3i42h3s6nnfq2msvx7xzkyayscx5qbyj",
            "sha1:da39a3ee5e6b4b0d3255bfef95601890afd80709",
            "sha1:2jmj7l5rSw0yVb/vlWAYkK/YBwk=",
            "sha1:2jmj7l5rSw0yVb_vlWAYkK_YBwk=",
        ] {
            assert!(
                matches!(parse(text), Parsed::Sha1(s) if s == empty),
                "{text}"
            );
        }
        assert!(matches!(parse("md5:abc"), Parsed::OtherAlgorithm));
        for text in [
            "",
            "sha1",
            "sha1:",
            "sha1:0",
            "sha1:1112H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ",
        ] {
            assert!(matches!(parse(text), Parsed::Malformed), "{text}");
        }
    }
}
