//! A stream of bits, most significant first, with the codes that BV graphs use.

use std::io::{self, BufRead};

pub(super) struct BitReader<R> {
    source: R,
    /// Bits not read yet, at the top.
    buffer: u64,
    filled: u32,
}

/// How a number is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Code {
    Unary,
    Gamma,
    Delta,
    Zeta(u32),
}

/// No number in a graph is longer; a longer one is damage.
const MAX_NUMBER_BITS: u32 = 40;

impl<R: BufRead> BitReader<R> {
    pub(super) fn new(source: R) -> Self {
        Self {
            source,
            buffer: 0,
            filled: 0,
        }
    }

    pub(super) fn read(&mut self, code: Code) -> io::Result<u64> {
        match code {
            Code::Unary => self.unary(u32::MAX).map(u64::from),
            Code::Gamma => self.gamma(),
            Code::Delta => {
                let width = self.gamma()?;
                if width > u64::from(MAX_NUMBER_BITS) {
                    return Err(too_long());
                }
                Ok((1 << width | self.bits(width as u32)?) - 1)
            }
            Code::Zeta(k) => {
                let h = self.unary(MAX_NUMBER_BITS / k)?;
                let left = 1_u64 << (h * k);
                let m = self.bits(h * k + k - 1)?;
                if m < left {
                    Ok(m + left - 1)
                } else {
                    Ok((m << 1) + self.bits(1)? - 1)
                }
            }
        }
    }

    fn gamma(&mut self) -> io::Result<u64> {
        let width = self.unary(MAX_NUMBER_BITS)?;
        Ok((1 << width | self.bits(width)?) - 1)
    }

    /// Zeros before a one.
    fn unary(&mut self, max: u32) -> io::Result<u32> {
        let mut zeros = 0_u32;
        loop {
            if self.filled == 0 {
                self.fill()?;
            }
            let here = self.buffer.leading_zeros().min(self.filled);
            zeros = zeros.saturating_add(here);
            if zeros > max {
                return Err(too_long());
            }
            if here < self.filled {
                self.skip(here + 1);
                return Ok(zeros);
            }
            self.skip(here);
        }
    }

    fn bits(&mut self, count: u32) -> io::Result<u64> {
        if count == 0 {
            return Ok(0);
        }
        while self.filled < count {
            self.fill()?;
        }
        let value = self.buffer >> (64 - count);
        self.skip(count);
        Ok(value)
    }

    fn skip(&mut self, count: u32) {
        // Shifting out all 64 bits is an overflow for `<<`.
        self.buffer = self.buffer.checked_shl(count).unwrap_or(0);
        self.filled -= count;
    }

    fn fill(&mut self) -> io::Result<()> {
        let bytes = self.source.fill_buf()?;
        if bytes.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let taken = bytes.len().min(((64 - self.filled) / 8) as usize);
        for &byte in &bytes[..taken] {
            self.buffer |= u64::from(byte) << (56 - self.filled);
            self.filled += 8;
        }
        self.source.consume(taken);
        Ok(())
    }
}

fn too_long() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a number is too long")
}
