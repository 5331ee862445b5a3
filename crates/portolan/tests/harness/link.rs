//! A link to a server that a test can cut and mend: a proxy of bytes in threads of its own.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

const POLL: Duration = Duration::from_millis(5);

/// Listens at an address of its own; ends with the test.
pub struct Link {
    addr: SocketAddr,
    server: SocketAddr,
    silent: Arc<AtomicBool>,
    /// Both ends of every connection that is open.
    open: Arc<Mutex<Vec<TcpStream>>>,
    listening: Option<(Arc<AtomicBool>, JoinHandle<()>)>,
}

impl Link {
    pub fn to(server: SocketAddr) -> Link {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let mut link = Link {
            addr: listener.local_addr().expect("it is bound"),
            server,
            silent: Arc::default(),
            open: Arc::default(),
            listening: None,
        };
        link.listen(listener);
        link
    }

    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Connections end, and new ones are refused.
    pub fn cut(&mut self) {
        if let Some((stop, thread)) = self.listening.take() {
            stop.store(true, Ordering::SeqCst);
            thread.join().expect("the listener does not panic");
        }
        self.end_all();
    }

    /// Connections stay, and new ones can be made, but no byte comes through.
    pub fn silence(&mut self) {
        self.silent.store(true, Ordering::SeqCst);
    }

    /// As it was in the beginning.
    pub fn mend(&mut self) {
        self.silent.store(false, Ordering::SeqCst);
        if self.listening.is_none() {
            let listener = TcpListener::bind(self.addr).expect("its port is still free");
            self.listen(listener);
        }
    }

    fn end_all(&self) {
        for stream in self.open.lock().expect("no panic").drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn listen(&mut self, listener: TcpListener) {
        listener.set_nonblocking(true).expect("it can");
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, silent) = (Arc::clone(&stop), Arc::clone(&self.silent));
        let (open, server) = (Arc::clone(&self.open), self.server);
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::SeqCst) {
                let Ok((near, _)) = listener.accept() else {
                    std::thread::sleep(POLL);
                    continue;
                };
                near.set_nonblocking(false).expect("it can");
                let Ok(far) = TcpStream::connect(server) else {
                    continue;
                };
                for (from, to) in [(&near, &far), (&far, &near)] {
                    let (from, to) = (from.try_clone(), to.try_clone());
                    let (from, to) = (from.expect("a copy"), to.expect("a copy"));
                    open.lock()
                        .expect("no panic")
                        .push(from.try_clone().expect("a copy"));
                    let silent = Arc::clone(&silent);
                    std::thread::spawn(move || pass_on(from, to, &silent));
                }
            }
        });
        self.listening = Some((stop, thread));
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.cut();
    }
}

fn pass_on(mut from: TcpStream, mut to: TcpStream, silent: &AtomicBool) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(read) = from.read(&mut buffer) {
        while silent.load(Ordering::SeqCst) {
            std::thread::sleep(POLL);
        }
        if read == 0 || to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}
