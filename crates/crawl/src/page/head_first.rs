//! Whether a HEAD is worth its request, before a GET.

use portolan_model::{CanonicalUrl, DocId, LinkKind};
use portolan_registry::Due;

use super::Workbench;
use crate::settings::{HeadFirst, Settings};

impl Workbench {
    /// Does a HEAD save bytes here? Not if one was already made.
    pub(crate) fn wants_head_first(
        &mut self,
        settings: &Settings,
        url: &CanonicalUrl,
        due: &Due,
    ) -> bool {
        // A sitemap is read whatever its head says.
        if due.kind == LinkKind::Sitemap {
            return false;
        }
        let worth_it = match settings.http.head_first {
            HeadFirst::Never => false,
            HeadFirst::Always => true,
            HeadFirst::ByLook => !settings.content.types.is_empty() && looks_heavy(url.path()),
        };
        worth_it && self.heads.get(&due.doc).is_none()
    }

    pub(crate) fn head_was_fine(&mut self, doc: DocId) {
        self.heads.insert(doc, ());
    }
}

/// Names of files that are large and rarely text.
fn looks_heavy(path: &str) -> bool {
    const HEAVY: [&str; 24] = [
        "7z", "avi", "bin", "bz2", "deb", "dmg", "doc", "docx", "exe", "flac", "gz", "iso", "jar",
        "mkv", "mov", "mp3", "mp4", "mpg", "pdf", "rpm", "tar", "wav", "xz", "zip",
    ];
    let name = path.rsplit('/').next().unwrap_or("");
    name.rsplit_once('.').is_some_and(|(_, extension)| {
        HEAVY
            .iter()
            .any(|heavy| heavy.eq_ignore_ascii_case(extension))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heavy_names_are_known_by_their_extension() {
        assert!(looks_heavy("/a/b.PDF") && looks_heavy("/x.tar.gz"));
        assert!(!looks_heavy("/pdf") && !looks_heavy("/a.html") && !looks_heavy("/"));
    }
}
