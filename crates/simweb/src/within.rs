//! The Web without sockets: connections are pipes, served by tasks of the caller's runtime, on the caller's time.

use crate::connection::Connection;
use crate::web::Web;
use crate::witness::Witness;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::io::DuplexStream;

/// What a pipe holds in each direction, in bytes, before its writer waits.
const PIPE_BYTES: usize = 64 * 1024;

/// A Web that is served within the process.
#[derive(Clone)]
pub struct Within {
    web: Arc<Web>,
    witness: Arc<Witness>,
}

impl Within {
    /// Serves `web` at `ips`. The witness's time is that of the runtime in which this is called.
    pub fn new(web: Arc<Web>, ips: &[IpAddr]) -> Self {
        let witness = Arc::new(Witness::new(Arc::clone(&web), ips));
        Self { web, witness }
    }

    pub fn witness(&self) -> &Arc<Witness> {
        &self.witness
    }

    /// A connection to the server at `ip`, which is served by a task of the current runtime until this end is dropped.
    pub fn connect(&self, ip: IpAddr) -> DuplexStream {
        let (client, server) = tokio::io::duplex(PIPE_BYTES);
        let slot = self.witness.ip_slot(ip);
        self.witness.connected();
        let connection = Connection::new(self.web.clone(), self.witness.clone(), server, slot);
        tokio::spawn(connection.serve());
        client
    }
}
