//! Files of this machine, below folders that a person named. Links out of them, also symbolic ones, are not followed.

use super::transfer::Transfer;
use super::{LISTING, decoded, type_of_name};
use crate::NetError;
use crate::http::{BodySink, HttpSettings, Request, Response, Scheme};
use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const READ_BYTES: usize = 64 * 1024;

pub(crate) struct Files {
    folders: Arc<[PathBuf]>,
}

impl Files {
    pub(super) fn new(folders: Arc<[PathBuf]>) -> Self {
        Self { folders }
    }

    pub(super) async fn fetch(
        &mut self,
        settings: &HttpSettings,
        request: &Request<'_>,
        sink: &mut dyn BodySink,
    ) -> Result<Response, NetError> {
        let mut transfer = Transfer::new(Scheme::File, settings, sink);
        let url_path = request.path_and_query;
        let Some(bytes) = decoded(url_path) else {
            return Ok(transfer.status(400));
        };
        let (path, metadata) = match self.find(Path::new(&OsString::from_vec(bytes))) {
            Ok(found) => found,
            Err(error) => return Ok(transfer.status(status_of(&error))),
        };
        if metadata.is_dir() && !url_path.ends_with('/') {
            return Ok(transfer.moved(&format!("{url_path}/")));
        }
        let media_type = match metadata.is_dir() {
            true => Some(LISTING),
            false => type_of_name(url_path),
        };
        let (head, is_wanted) = transfer.begin(media_type, request.method);
        if !is_wanted {
            return Ok(transfer.end(head));
        }
        let read = match metadata.is_dir() {
            true => listing(&path).map(|listing| {
                let _ = transfer.take(&listing);
            }),
            false => read_file(&path, &mut transfer).await,
        };
        match read {
            Ok(()) => Ok(transfer.end(head)),
            Err(error) => Ok(transfer.status(status_of(&error))),
        }
    }

    /// Where the file really is, if that is below one of the folders.
    fn find(&self, path: &Path) -> io::Result<(PathBuf, Metadata)> {
        let real = fs::canonicalize(path)?;
        let is_below =
            |folder: &PathBuf| fs::canonicalize(folder).is_ok_and(|f| real.starts_with(f));
        let metadata = fs::metadata(&real)?;
        let is_readable = metadata.is_file() || metadata.is_dir();
        if !is_readable || !self.folders.iter().any(is_below) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        Ok((real, metadata))
    }
}

fn status_of(error: &io::Error) -> u16 {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => 404,
        io::ErrorKind::PermissionDenied => 403,
        _ => 500,
    }
}

async fn read_file(path: &Path, transfer: &mut Transfer<'_>) -> io::Result<()> {
    let mut file = File::open(path)?;
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok(());
        }
        if transfer.take(&buffer[..read]).is_break() {
            transfer.cut(portolan_model::Truncation::Length);
            return Ok(());
        }
        // Other turns of this worker go on between two reads.
        tokio::task::yield_now().await;
    }
}

/// As FTP's MLSD writes it (RFC 3659), in the order of names.
fn listing(folder: &Path) -> io::Result<Vec<u8>> {
    let mut lines = Vec::new();
    for item in fs::read_dir(folder)? {
        let item = item?;
        let metadata = fs::metadata(item.path());
        let kind = match metadata {
            Ok(metadata) if metadata.is_dir() => "dir",
            Ok(metadata) if metadata.is_file() => "file",
            _ => continue,
        };
        let mut line = format!("type={kind}; ").into_bytes();
        line.extend_from_slice(item.file_name().as_bytes());
        line.extend_from_slice(b"\r\n");
        lines.push(line);
    }
    lines.sort();
    Ok(lines.concat())
}
