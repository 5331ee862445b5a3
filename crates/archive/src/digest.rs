//! Digests as WARC writes them: `sha1:` and base32. Reads the other spellings in use.

use data_encoding::{BASE32, BASE64, BASE64URL, HEXLOWER_PERMISSIVE};
use sha1::block_api::compress;
use sha1::{Digest, Sha1};

pub(crate) const LABEL: &str = "sha1:";

pub(crate) fn sha1(bytes: &[u8]) -> [u8; 20] {
    Sha1::digest(bytes).into()
}

/// Payload and block digest of an answer: SHA-1 of `body`, and of `head` and `body` together.
///
/// Both go over the body at once, a block of one and a block of the other in turn. A round of SHA-1 waits
/// for the one before it; two that do not depend on each other fill these gaps, so that both digests
/// cost little more than one.
pub(crate) fn payload_and_block(head: &[u8], body: &[u8]) -> ([u8; 20], [u8; 20]) {
    let (whole, rest) = head.as_chunks::<BLOCK>();
    let mut block = Running::default();
    block.take(whole);
    // The block that holds the end of the head and the beginning of the body.
    let mut joint = [0; BLOCK];
    let fill = if rest.is_empty() {
        0
    } else {
        (BLOCK - rest.len()).min(body.len())
    };
    joint[..rest.len()].copy_from_slice(rest);
    joint[rest.len()..rest.len() + fill].copy_from_slice(&body[..fill]);
    let joined = rest.len() + fill;
    if joined < BLOCK {
        // A short body; or no joint at all, because the head ends where a block does.
        if joined > 0 {
            return (sha1(body), block.finish(&joint[..joined]));
        }
    } else {
        block.take(&[joint]);
    }
    let mut payload = Running::default();
    let (payload_blocks, payload_rest) = body.as_chunks::<BLOCK>();
    let (block_blocks, block_rest) = body[fill..].as_chunks::<BLOCK>();
    let shared = payload_blocks.len().min(block_blocks.len());
    for (one, other) in payload_blocks.iter().zip(block_blocks) {
        payload.take(std::slice::from_ref(one));
        block.take(std::slice::from_ref(other));
    }
    payload.take(&payload_blocks[shared..]);
    block.take(&block_blocks[shared..]);
    (payload.finish(payload_rest), block.finish(block_rest))
}

const BLOCK: usize = 64;

/// SHA-1 under way, fed in whole blocks.
struct Running {
    state: [u32; 5],
    bytes: u64,
}

impl Default for Running {
    fn default() -> Self {
        Self {
            state: [
                0x6745_2301,
                0xefcd_ab89,
                0x98ba_dcfe,
                0x1032_5476,
                0xc3d2_e1f0,
            ],
            bytes: 0,
        }
    }
}

impl Running {
    #[inline]
    fn take(&mut self, blocks: &[[u8; BLOCK]]) {
        self.bytes += (blocks.len() * BLOCK) as u64;
        compress(&mut self.state, blocks);
    }

    /// `rest` is shorter than a block. The padding is a bit, zeros, and the length in bits.
    fn finish(mut self, rest: &[u8]) -> [u8; 20] {
        let bits = (self.bytes + rest.len() as u64) * 8;
        let mut last = [0; BLOCK];
        last[..rest.len()].copy_from_slice(rest);
        last[rest.len()] = 0x80;
        if rest.len() + 1 + 8 > BLOCK {
            compress(&mut self.state, &[last]);
            last = [0; BLOCK];
        }
        last[BLOCK - 8..].copy_from_slice(&bits.to_be_bytes());
        compress(&mut self.state, &[last]);
        let mut digest = [0; 20];
        for (bytes, word) in digest.as_chunks_mut::<4>().0.iter_mut().zip(self.state) {
            *bytes = word.to_be_bytes();
        }
        digest
    }
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
    fn both_digests_at_once_are_those_of_sha1_alone() {
        let bytes: Vec<u8> = (0..500u32).map(|n| (n * 31 % 251) as u8).collect();
        for head in 0..140 {
            for body in (0..140).chain([200, 319, 320, 321]) {
                let (head, body) = (&bytes[..head], &bytes[bytes.len() - body..]);
                let expected = (sha1(body), sha1(&[head, body].concat()));
                assert_eq!(payload_and_block(head, body), expected);
            }
        }
    }

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
