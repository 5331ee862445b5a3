//! A block of addresses in CIDR notation. Nothing here decides whether a block may be reached.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use thiserror::Error;

/// A block such as `10.1.0.0/16`; a single address is a block of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Network {
    first: IpAddr,
    prefix_bits: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("'{0}' is not an IP address or a block of them such as 10.1.0.0/16")]
pub struct NotANetwork(String);

impl Network {
    pub fn contains(&self, ip: IpAddr) -> bool {
        masked(ip, self.prefix_bits) == Some(self.first)
    }

    /// The address of the block that `hash` falls on. Of an IPv4 block neither the first nor the
    /// last: those are the network's own and its broadcast address.
    pub fn address(&self, hash: u64) -> IpAddr {
        match self.first {
            IpAddr::V4(first) => {
                let size = 1u64 << (32 - self.prefix_bits);
                let offset = if size > 2 {
                    1 + hash % (size - 2)
                } else {
                    hash % size
                };
                IpAddr::V4(Ipv4Addr::from_bits(first.to_bits() | offset as u32))
            }
            IpAddr::V6(first) => {
                let inside = !mask_v6(self.prefix_bits);
                IpAddr::V6(Ipv6Addr::from_bits(
                    first.to_bits() | (u128::from(hash) & inside),
                ))
            }
        }
    }

    pub fn is_single(&self) -> bool {
        self.prefix_bits == width_bits(self.first)
    }
}

impl FromStr for Network {
    type Err = NotANetwork;

    fn from_str(text: &str) -> Result<Self, NotANetwork> {
        let bad = || NotANetwork(text.to_owned());
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let ip: IpAddr = address.parse().map_err(|_| bad())?;
        let prefix_bits = match prefix {
            // `u8::from_str` takes a sign; a prefix has none.
            Some(bits) if bits.bytes().all(|b| b.is_ascii_digit()) => {
                bits.parse().map_err(|_| bad())?
            }
            Some(_) => return Err(bad()),
            None => width_bits(ip),
        };
        let first = masked(ip, prefix_bits).ok_or_else(bad)?;
        Ok(Self { first, prefix_bits })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_single() {
            write!(f, "{}", self.first)
        } else {
            write!(f, "{}/{}", self.first, self.prefix_bits)
        }
    }
}

fn width_bits(ip: IpAddr) -> u8 {
    if ip.is_ipv4() { 32 } else { 128 }
}

/// The first address of the block that `ip` is in; `None` if the prefix is longer than an address.
fn masked(ip: IpAddr, prefix_bits: u8) -> Option<IpAddr> {
    if prefix_bits > width_bits(ip) {
        return None;
    }
    Some(match ip {
        IpAddr::V4(ip) => IpAddr::V4(Ipv4Addr::from_bits(ip.to_bits() & mask_v4(prefix_bits))),
        IpAddr::V6(ip) => IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() & mask_v6(prefix_bits))),
    })
}

fn mask_v4(prefix_bits: u8) -> u32 {
    u32::MAX
        .checked_shl(32 - u32::from(prefix_bits))
        .unwrap_or(0)
}

fn mask_v6(prefix_bits: u8) -> u128 {
    u128::MAX
        .checked_shl(128 - u32::from(prefix_bits))
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_hold_their_addresses() {
        let block: Network = "10.1.2.3/16".parse().unwrap();
        assert_eq!(block.to_string(), "10.1.0.0/16");
        assert!(block.contains("10.1.255.255".parse().unwrap()));
        assert!(!block.contains("10.2.0.0".parse().unwrap()));
        assert!(!block.contains("::1".parse().unwrap()));
        assert_eq!(block.address(0x0202).to_string(), "10.1.2.3");
        for hash in [0, 0xfffd, 0xfffe, u64::MAX] {
            let ip = block.address(hash);
            assert!(
                block.contains(ip) && !["10.1.0.0", "10.1.255.255"].contains(&&*ip.to_string())
            );
        }
        let one: Network = "10.1.2.3".parse().unwrap();
        assert_eq!(one.address(77).to_string(), "10.1.2.3");
        let all: Network = "0.0.0.0/0".parse().unwrap();
        assert!(all.contains("9.9.9.9".parse().unwrap()));
        let six: Network = "fd00::/8".parse().unwrap();
        assert!(six.contains("fdff::1".parse().unwrap()));
        assert_eq!(six.address(5).to_string(), "fd00::5");
        for bad in [
            "",
            "10.0.0",
            "10.0.0.0/33",
            "::/129",
            "10.0.0.0/+8",
            "10.0.0.0/",
            "x/8",
        ] {
            assert!(bad.parse::<Network>().is_err(), "{bad}");
        }
    }
}
