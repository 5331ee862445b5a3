//! Undoes chunked transfer coding, for digests of records in which another crawler kept it.

#[derive(Default)]
pub(crate) struct Dechunker {
    state: State,
}

#[derive(Default, Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Before the first digit of a chunk's size.
    #[default]
    Start,
    /// Among the digits, with their value so far.
    Size(u64),
    /// From behind the digits to the line's end.
    Extension(u64),
    Data(u64),
    /// The line end behind the data.
    DataEnd,
    /// Behind the last chunk: trailers, which nobody needs.
    Done,
    Broken,
}

impl Dechunker {
    /// Hands the decoded bytes of the next piece to `take`.
    pub fn feed(&mut self, mut piece: &[u8], mut take: impl FnMut(&[u8])) {
        while let Some(&byte) = piece.first() {
            let mut used = 1;
            self.state = match self.state {
                State::Done | State::Broken => return,
                State::Start => match digit(byte) {
                    Some(value) => State::Size(value),
                    None => State::Broken,
                },
                State::Size(size) => match (digit(byte), size.checked_mul(16)) {
                    (Some(value), Some(size)) => State::Size(size + value),
                    (Some(_), None) => State::Broken,
                    (None, _) if matches!(byte, b'\r' | b'\n' | b';' | b' ' | b'\t') => {
                        after_size(size, byte)
                    }
                    (None, _) => State::Broken,
                },
                State::Extension(size) => after_size(size, byte),
                State::Data(left) => {
                    used = piece.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    take(&piece[..used]);
                    match left - used as u64 {
                        0 => State::DataEnd,
                        left => State::Data(left),
                    }
                }
                State::DataEnd => match byte {
                    b'\r' => State::DataEnd,
                    b'\n' => State::Start,
                    _ => State::Broken,
                },
            };
            piece = &piece[used..];
        }
    }

    /// Did something come that is no chunk?
    pub fn is_broken(&self) -> bool {
        self.state == State::Broken
    }

    /// Was everything up to the last chunk there?
    pub fn is_whole(&self) -> bool {
        self.state == State::Done
    }
}

fn after_size(size: u64, byte: u8) -> State {
    match (byte, size) {
        (b'\n', 0) => State::Done,
        (b'\n', size) => State::Data(size),
        _ => State::Extension(size),
    }
}

fn digit(byte: u8) -> Option<u64> {
    char::from(byte).to_digit(16).map(u64::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dechunk(text: &[u8], piece: usize) -> (Vec<u8>, bool) {
        let mut out = Vec::new();
        let mut dechunker = Dechunker::default();
        for part in text.chunks(piece) {
            dechunker.feed(part, |bytes| out.extend_from_slice(bytes));
        }
        (out, dechunker.is_whole())
    }

    #[test]
    fn pieces_of_every_size() {
        let text = b"5\r\nhello\r\nA;x=1\r\n0123456789\r\n0\r\n\r\n";
        for piece in 1..=text.len() {
            assert_eq!(dechunk(text, piece), (b"hello0123456789".to_vec(), true));
        }
        assert_eq!(dechunk(b"5\r\nhel", 3), (b"hel".to_vec(), false));
        assert_eq!(dechunk(b"<!doctype html>", 3), (Vec::new(), false));
        assert_eq!(dechunk(b"ffffffffffffffffff\r\n", 3), (Vec::new(), false));
        assert_eq!(dechunk(b"1\r\naXX", 9), (b"a".to_vec(), false));
    }
}
