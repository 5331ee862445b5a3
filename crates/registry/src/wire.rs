//! How numbers and strings are laid out in the registry's files: varints, little-endian words,
//! length-prefixed bytes. Knows nothing of what they mean.

/// 64 bits, 7 in each byte.
const MAX_VARINT_BYTES: usize = 10;

#[inline]
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    if value < 0x80 {
        out.push(value as u8);
        return;
    }
    let mut bytes = [0; MAX_VARINT_BYTES];
    let mut length = 0;
    while value >= 0x80 {
        bytes[length] = value as u8 | 0x80;
        value >>= 7;
        length += 1;
    }
    bytes[length] = value as u8;
    out.extend_from_slice(&bytes[..=length]);
}

/// The number that starts at `at`, and where it ends. Several per entry of every table that is
/// read, so numbers of up to 8 bytes are put together at once rather than byte by byte.
#[inline]
pub(crate) fn varint_at(bytes: &[u8], at: usize) -> Option<(u64, usize)> {
    let first = *bytes.get(at)?;
    if first < 0x80 {
        return Some((u64::from(first), at + 1));
    }
    let Some(word) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) else {
        return long_varint_at(bytes, at);
    };
    let word = u64::from_le_bytes(*word);
    let ends = !word & 0x8080_8080_8080_8080;
    if ends == 0 {
        return long_varint_at(bytes, at);
    }
    let bits = ends.trailing_zeros() + 1;
    let word = word & (u64::MAX >> (64 - bits));
    let pairs = (word & 0x007f_007f_007f_007f) | (word & 0x7f00_7f00_7f00_7f00) >> 1;
    let fours = (pairs & 0x0000_3fff_0000_3fff) | (pairs & 0x3fff_0000_3fff_0000) >> 2;
    let value = (fours & 0x0fff_ffff) | (fours & 0x0fff_ffff_0000_0000) >> 4;
    Some((value, at + bits as usize / 8))
}

fn long_varint_at(bytes: &[u8], mut at: usize) -> Option<(u64, usize)> {
    let mut value = 0u64;
    for shift in (0..=63).step_by(7) {
        let byte = *bytes.get(at)?;
        at += 1;
        if shift == 63 && byte > 1 {
            return None;
        }
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some((value, at));
        }
    }
    None
}

pub(crate) fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Signed numbers, small in either direction.
pub(crate) fn put_signed(out: &mut Vec<u8>, value: i64) {
    put_varint(out, ((value << 1) ^ (value >> 63)) as u64);
}

/// Reads what the functions above wrote; `None` where the bytes end early or make no sense.
#[derive(Clone)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// What is not yet read.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    /// Bytes not yet read.
    pub(crate) fn left(&self) -> usize {
        self.bytes.len()
    }

    #[inline]
    pub(crate) fn varint(&mut self) -> Option<u64> {
        let (value, end) = varint_at(self.bytes, 0)?;
        self.bytes = &self.bytes[end..];
        Some(value)
    }

    pub(crate) fn signed(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    pub(crate) fn narrow<T: TryFrom<u64>>(&mut self) -> Option<T> {
        T::try_from(self.varint()?).ok()
    }

    #[inline]
    pub(crate) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(length)?;
        self.bytes = rest;
        Some(taken)
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        Some(self.take(1)?[0])
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        let length: usize = self.narrow()?;
        self.take(length)
    }

    pub(crate) fn string(&mut self) -> Option<String> {
        Some(std::str::from_utf8(self.bytes()?).ok()?.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_round_trip() {
        let powers = (0..64).map(|bit| 1u64 << bit);
        let numbers: Vec<u64> = powers.flat_map(|n| [n - 1, n, n + 1, !n]).collect();
        let mut out = Vec::new();
        for &n in &numbers {
            put_varint(&mut out, n);
            put_signed(&mut out, n as i64);
        }
        let mut reader = Reader::new(&out);
        for &n in &numbers {
            assert_eq!(reader.varint(), Some(n));
            assert_eq!(reader.signed(), Some(n as i64));
        }
        assert!(reader.is_empty());
        assert_eq!(Reader::new(&[0xff; 11]).varint(), None);
        assert_eq!(Reader::new(&[0xff; 3]).varint(), None);
        assert_eq!(varint_at(&[0x80, 1], 2), None);
    }
}
