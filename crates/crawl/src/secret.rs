//! The secret of a crawl: a small file in its directory that documents and hosts get their identities
//! from. Made once, when the crawl begins, and never written or sent anywhere else. Who has it can make
//! URLs that this crawl mistakes for others; who has lost it cannot go on with the crawl.

use std::io::ErrorKind;
use std::path::Path;

use portolan_model::Identities;

use crate::directory::replace;
use crate::error::CrawlError;
use crate::outside::Outside;

/// In the crawl's directory, for its owner's eyes alone.
pub(crate) const SECRET_FILE: &str = "secret";

/// The number is that of the file's format.
const HEAD: &str = "portolan secret 1: ";

/// A new secret for the crawl that begins in `dir`, durable when this returns.
pub(crate) fn make(dir: &Path, outside: &Outside) -> Result<Identities, CrawlError> {
    let mut secret = [0; Identities::SECRET_BYTES];
    outside.fill(&mut secret, "the crawl's secret")?;
    put(dir, secret)
}

/// The secret of a crawl that begins in `dir` as a part of a larger one; durable when this returns.
pub(crate) fn put(
    dir: &Path,
    secret: [u8; Identities::SECRET_BYTES],
) -> Result<Identities, CrawlError> {
    let digits: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
    replace(dir, SECRET_FILE, format!("{HEAD}{digits}\n").as_bytes())?;
    Ok(Identities::of_secret(secret))
}

/// The secret of the crawl in `dir`.
pub(crate) fn read(dir: &Path) -> Result<Identities, CrawlError> {
    let path = dir.join(SECRET_FILE);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(e) if e.kind() == ErrorKind::NotFound => {
            return Err(CrawlError::Input(format!(
                "{}: the crawl has no file '{SECRET_FILE}', so another version of Portolan made it; begin a new crawl in another directory",
                dir.display()
            )));
        }
        Err(e) if e.kind() == ErrorKind::InvalidData => String::new(),
        Err(source) => return Err(CrawlError::File { path, source }),
    };
    let secret = text
        .strip_prefix(HEAD)
        .and_then(|rest| parse(rest.strip_suffix('\n')?));
    secret.map(Identities::of_secret).ok_or_else(|| {
        CrawlError::Input(format!(
            "{} is damaged; restore the file from a copy",
            path.display()
        ))
    })
}

fn parse(digits: &str) -> Option<[u8; Identities::SECRET_BYTES]> {
    let mut secret = [0; Identities::SECRET_BYTES];
    let whole = digits.len() == 2 * secret.len() && digits.bytes().all(|b| b.is_ascii_hexdigit());
    for (byte, at) in secret
        .iter_mut()
        .zip((0..).step_by(2))
        .take_while(|_| whole)
    {
        *byte = u8::from_str_radix(&digits[at..at + 2], 16).ok()?;
    }
    whole.then_some(secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_kept_and_each_is_another() {
        let dir = std::env::temp_dir().join(format!("secret-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory");
        let none = read(&dir).expect_err("none yet").to_string();
        assert!(none.contains("has no file 'secret'"), "{none}");
        let made = make(&dir, &Outside::default()).expect("made");
        assert_eq!(read(&dir).expect("kept"), made);
        let path = dir.join(SECRET_FILE);
        let text = std::fs::read_to_string(&path).expect("its text");
        assert_ne!(make(&dir, &Outside::default()).expect("another"), made);
        for damaged in [
            "",
            &text[..text.len() - 2],
            &text.replace('\n', "0\n"),
            &text.replace("secret 1", "secret 2"),
            &text.replace(": ", ": +").replacen(['0', '1'], "", 1),
        ] {
            std::fs::write(&path, damaged).expect("written");
            let error = read(&dir).expect_err(damaged).to_string();
            assert!(error.contains("is damaged"), "{error}");
            let digits = text.trim_end().rsplit(' ').next().expect("digits");
            assert!(!error.contains(&digits[..8]), "{error}");
        }
        std::fs::remove_dir_all(&dir).expect("removed");
    }
}
