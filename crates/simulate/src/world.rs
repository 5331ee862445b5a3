//! The simulated Web as a crawl reaches it: names and connections, in whatever weather there is.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use portolan_crawl::{Step, Steps};
use portolan_net::{Addresses, Dialed, Dialer, Lookup, NotResolved, NotResolvedBy, Pipe, Resolver};
use portolan_simweb::{Web, Within};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};

use crate::disk::Disk;
use crate::time::SimulatedClock;
use crate::weather::{Trouble, Weather};

pub(crate) struct World {
    pub(crate) web: Arc<Web>,
    pub(crate) within: Within,
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) weather: Weather,
    pub(crate) clock: Arc<SimulatedClock>,
    pub(crate) disk: Disk,
}

impl Steps for World {
    fn before(&self, step: Step) -> io::Result<()> {
        self.disk.before(step)
    }
}

impl Dialer for World {
    fn dial(&self, address: SocketAddr) -> Dialed<'_> {
        Box::pin(async move {
            let mut is_broken = false;
            let troubles: Vec<Trouble> =
                self.weather.at(self.clock.ran_ms(), address.ip()).collect();
            tracing::debug!(%address, ?troubles, "dialled");
            for trouble in troubles {
                match trouble {
                    Trouble::Refused => return Err(io::ErrorKind::ConnectionRefused.into()),
                    Trouble::Silent => std::future::pending().await,
                    Trouble::Slow(by_ms) => tokio::time::sleep(Duration::from_millis(by_ms)).await,
                    Trouble::Broken => is_broken = true,
                    Trouble::Nameless => {}
                }
            }
            let pipe = self.within.connect(address.ip());
            let pipe: Box<dyn Pipe> = match is_broken {
                true => Box::new(Broken(pipe)),
                false => Box::new(pipe),
            };
            Ok(pipe)
        })
    }
}

impl Resolver for World {
    fn lookup<'a>(&'a self, host: &'a str) -> Lookup<'a> {
        Box::pin(async move {
            let not_resolved = |cause| NotResolved {
                detail: "the simulated name service does not know it".to_owned(),
                cause,
                ttl_ms: None,
            };
            let Some(number) = self.web.host_named(host) else {
                return Err(not_resolved(NotResolvedBy::NoSuchName));
            };
            let address = self.addresses[number as usize % self.addresses.len()];
            let mut troubles = self.weather.at(self.clock.ran_ms(), address);
            if troubles.any(|trouble| trouble == Trouble::Nameless) {
                return Err(not_resolved(NotResolvedBy::NoAnswer));
            }
            Ok(Addresses {
                addresses: vec![address],
                port_override: None,
                ttl_ms: None,
                named: true,
            })
        })
    }
}

/// A connection that is reset when something is sent: the server never hears of it.
struct Broken(DuplexStream);

impl AsyncRead for Broken {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Broken {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        _bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        // Who goes on to read finds it closed.
        let _ = Pin::new(&mut self.0).poll_shutdown(context);
        Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()))
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
