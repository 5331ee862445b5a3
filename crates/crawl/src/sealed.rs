//! Small text files with a checksum in their last line, so that one that was emptied, cut or changed is told from one
//! that says little: without settings a crawl would go on with another scope and other delays.

use std::path::Path;

use xxhash_rust::xxh3::xxh3_64;

use crate::error::CrawlError;

/// Starts the last line: a comment in the formats that are sealed.
const SEAL: &str = "# End of the file, checksum ";

/// The text with its last line.
pub(crate) fn seal(text: &str) -> String {
    format!("{text}{SEAL}{:016x}\n", xxh3_64(text.as_bytes()))
}

/// What was sealed; an error names the file and `instead`, what to do rather than change it.
pub(crate) fn unseal<'t>(
    sealed: &'t str,
    path: &Path,
    instead: &str,
) -> Result<&'t str, CrawlError> {
    let text = sealed.rfind(SEAL).map(|at| &sealed[..at]);
    text.filter(|text| seal(text) == sealed).ok_or_else(|| {
        let what = match (sealed.trim().is_empty(), text.is_some()) {
            (true, _) => "is empty",
            (false, false) => "is cut off: its last line is missing",
            (false, true) => "was changed or damaged: its checksum is another one",
        };
        CrawlError::Input(format!(
            "{} {what}; restore the file from a copy{instead}",
            path.display()
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_was_done_to_it_is_told() {
        let path = Path::new("crawl.toml");
        let open = |sealed: &str| unseal(sealed, path, "").map(str::to_owned);
        for text in [
            "",
            "[limits]\nmax_pages = 5\n",
            "# End of the file, checksum 1\n",
        ] {
            let sealed = seal(text);
            assert_eq!(open(&sealed).expect("whole"), text);
            for cut in 0..sealed.len() {
                let said = open(&sealed[..cut]).expect_err("cut").to_string();
                assert!(said.starts_with("crawl.toml "), "{said}");
            }
            for at in 0..sealed.len() {
                let mut bytes = sealed.clone().into_bytes();
                bytes[at] ^= 1;
                let changed = String::from_utf8(bytes).expect("ASCII");
                assert!(open(&changed).is_err(), "changed at {at}");
            }
        }
        let said = open("").expect_err("empty").to_string();
        assert!(said.contains("crawl.toml is empty"), "{said}");
    }
}
