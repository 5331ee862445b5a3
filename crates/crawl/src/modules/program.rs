//! A program that reads documents, as the settings name it, found and ready to be run.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use tokio::sync::Semaphore;

use crate::error::CrawlError;
use crate::settings::{ModuleOutput, ModuleSettings};

/// Sets limits for what it becomes. Any POSIX system has it there.
pub(super) const SHELL: &str = "/bin/sh";
/// Where programs are looked for if the environment does not say.
const USUAL_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// A program of the settings.
pub(super) struct Program {
    pub(super) path: PathBuf,
    pub(super) arguments: Vec<String>,
    pub(super) output: ModuleOutput,
    pub(super) timeout: Duration,
    pub(super) memory_kib: u64,
    pub(super) max_output_bytes: usize,
    /// Runs that may be under way at once.
    pub(super) places: Arc<Semaphore>,
}

impl Program {
    /// An error is one sentence: there is no such program.
    pub(super) fn find(settings: &ModuleSettings) -> Result<Self, CrawlError> {
        let name = settings.own_name();
        let wanted = settings.command.first().map_or("", String::as_str);
        let wrong = |what: String| CrawlError::Input(format!("module '{name}': {what}"));
        if !is_program(Path::new(SHELL)) {
            return Err(wrong(format!(
                "there is no {SHELL}, which sets the limits of programs"
            )));
        }
        let path = match wanted.contains('/') {
            true => std::path::absolute(wanted).ok().filter(|p| is_program(p)),
            false => in_path(wanted),
        };
        let path = path.ok_or_else(|| {
            wrong(match wanted.contains('/') {
                true => format!("{wanted} is no program that can be run"),
                false => format!(
                    "there is no program '{wanted}' in PATH; install it, or write where it is"
                ),
            })
        })?;
        let at_once = match settings.at_once {
            0 => std::thread::available_parallelism().map_or(1, |cores| cores.get()),
            at_once => at_once,
        };
        // What this process may not have itself it cannot give.
        let allowed = getrlimit(Resource::As).maximum.unwrap_or(u64::MAX);
        let memory_kib = (settings.memory_mb << 10).min(allowed >> 10);
        Ok(Self {
            path,
            arguments: settings.command.iter().skip(1).cloned().collect(),
            output: settings.output,
            timeout: Duration::from_millis(settings.timeout_ms),
            memory_kib,
            max_output_bytes: settings.max_output_bytes as usize,
            places: Arc::new(Semaphore::new(at_once)),
        })
    }
}

/// Where programs are looked for.
pub(super) fn search_path() -> std::ffi::OsString {
    let path = std::env::var_os("PATH").filter(|path| !path.is_empty());
    path.unwrap_or_else(|| USUAL_PATH.into())
}

fn in_path(name: &str) -> Option<PathBuf> {
    let path = search_path();
    std::env::split_paths(&path)
        .filter(|dir| dir.is_absolute())
        .map(|dir| dir.join(name))
        .find(|file| is_program(file))
}

fn is_program(path: &Path) -> bool {
    let file = std::fs::metadata(path);
    file.is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_or_its_absence_is_one_sentence() {
        let find = |program: &str| {
            Program::find(&ModuleSettings {
                command: vec![program.to_owned()],
                ..ModuleSettings::default()
            })
        };
        assert!(find("sh").expect("a shell").path.ends_with("sh"));
        assert_eq!(find("/bin/sh").expect("a shell").path, Path::new("/bin/sh"));
        for (program, sentence) in [
            (
                "no-such-program",
                "module 'no-such-program': there is no program 'no-such-program' in PATH; install it, or write where it is",
            ),
            (
                "/etc/passwd",
                "module 'passwd': /etc/passwd is no program that can be run",
            ),
            (
                "./no/such",
                "module 'such': ./no/such is no program that can be run",
            ),
        ] {
            let told = find(program).err().expect(program).to_string();
            assert_eq!(told, sentence);
        }
    }
}
