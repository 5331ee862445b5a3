//! One run of a program over a document, within its bounds. It gets a clean environment and an empty working directory;
//! it and all that it began are killed when its time is up, when it writes too much, and when it has ended.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

use super::program::{Program, SHELL, search_path};
use super::said::{self, Said};

/// Runs in a shell, which sets the limits that hold for all that it becomes and begins: no core dumps, address space in KiB
/// (`$0`), no file larger than that (in 512 bytes), CPU time in seconds (`$1`). The last holds where nobody is left to look
/// at the time, because the crawler was killed.
const LIMITED: &str = "ulimit -c 0 && ulimit -v \"$0\" && ulimit -f $(($0 * 2)) && ulimit -t \"$1\" && shift && exec \"$@\"";

/// Of what a program says on its standard error, this much is kept.
const MAX_ERROR_BYTES: usize = 300;

/// What a program is given.
pub(super) struct Input {
    pub(super) url: String,
    pub(super) media_type: String,
    pub(super) body: Arc<Vec<u8>>,
}

/// Why a run brought nothing.
#[derive(Debug)]
pub(super) enum Failure {
    NotStarted(io::Error),
    Died(ExitStatus, String),
    TimedOut(u64),
    TooLong(usize),
    /// What it wrote is not what it should write.
    Unreadable(String),
    /// The crawl is about to end.
    Ending,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::NotStarted(error) => write!(f, "it could not be run: {error}"),
            Failure::Died(status, said) => {
                match (status.code(), status.signal()) {
                    (Some(code), _) => write!(f, "it ended with code {code}")?,
                    (None, Some(signal)) => write!(f, "it was killed by signal {signal}")?,
                    (None, None) => write!(f, "it died")?,
                }
                match said.is_empty() {
                    true => Ok(()),
                    false => write!(f, ": {said}"),
                }
            }
            Failure::TimedOut(after_ms) => write!(f, "it took longer than {after_ms} ms"),
            Failure::TooLong(most) => write!(f, "it wrote more than {most} bytes"),
            Failure::Unreadable(why) => write!(f, "what it wrote cannot be read: {why}"),
            Failure::Ending => write!(f, "the crawl ended before it did"),
        }
    }
}

/// All processes of a run. They are killed when this is dropped.
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        Self(id.and_then(Pid::from_raw))
    }

    fn kill(&mut self) {
        if let Some(leader) = self.0.take() {
            // Nobody may be left to be killed.
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Give the program a document, and read what it says.
pub(super) async fn run(program: &Program, input: &Input) -> Result<Said, Failure> {
    let scratch = tempfile::Builder::new()
        .prefix("portolan-module-")
        .tempdir()
        .map_err(Failure::NotStarted)?;
    let mut child = command(program, input, scratch.path().as_os_str())
        .spawn()
        .map_err(Failure::NotStarted)?;
    let mut group = Group::of(&child);
    let watched = tokio::time::timeout(
        program.timeout,
        watch(program, input, &mut child, &mut group),
    );
    let written = match watched.await {
        Ok(written) => written,
        Err(_) => Err(Failure::TimedOut(program.timeout.as_millis() as u64)),
    };
    group.kill();
    // It was killed, if it had not ended, and leaves no trace.
    let _ = child.wait().await;
    said::read(program.output, written?)
}

fn command(program: &Program, input: &Input, scratch: &OsStr) -> Command {
    let mut command = Command::new(SHELL);
    command
        .args(["-c", LIMITED])
        .arg(program.memory_kib.to_string())
        .arg((program.timeout.as_secs() + 1).to_string())
        .arg(&program.path)
        .args(&program.arguments)
        .env_clear()
        .env("PATH", search_path())
        .env("LANG", "C.UTF-8")
        .env("HOME", scratch)
        .env("TMPDIR", scratch)
        .env("PORTOLAN_URL", &input.url)
        .env("PORTOLAN_TYPE", &input.media_type)
        .current_dir(scratch)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    command
}

/// Until the program has ended and all is read.
async fn watch(
    program: &Program,
    input: &Input,
    child: &mut Child,
    group: &mut Group,
) -> Result<Vec<u8>, Failure> {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let feed = async {
        if let Some(mut stdin) = stdin {
            // A program need not read all of a document.
            let _ = stdin.write_all(&input.body).await;
        }
        Ok(())
    };
    let most = program.max_output_bytes;
    let read = async {
        let written = first_bytes(stdout, most + 1).await;
        match written.len() > most {
            true => Err(Failure::TooLong(most)),
            false => Ok(written),
        }
    };
    let complaint = async {
        let said = first_bytes(stderr, MAX_ERROR_BYTES).await;
        Ok(first_line(&said))
    };
    let end = async {
        let status = child.wait().await.map_err(Failure::NotStarted);
        // What it left behind would hold its output open.
        group.kill();
        status
    };
    let (status, written, complaint, ()) = tokio::try_join!(end, read, complaint, feed)?;
    match status.success() {
        true => Ok(written),
        false => Err(Failure::Died(status, complaint)),
    }
}

/// Reads to the end, or until there are `most` bytes; what follows is left unread. A program that writes more to its standard
/// error than is kept must not stand still for that: there the rest is read, too.
async fn first_bytes(stream: Option<impl AsyncRead + Unpin>, most: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let Some(mut stream) = stream else {
        return bytes;
    };
    let _ = (&mut stream)
        .take(most as u64)
        .read_to_end(&mut bytes)
        .await;
    if most == MAX_ERROR_BYTES {
        let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
    }
    bytes
}

/// The first line that says something, as text.
fn first_line(said: &[u8]) -> String {
    let text = String::from_utf8_lossy(said);
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.next().unwrap_or_default().to_owned()
}
