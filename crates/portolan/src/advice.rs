//! What a person can type about an error. The rooms below name directories and settings; here are the commands and
//! options that go with them.

use portolan_crawl::CrawlError;
use portolan_fleet::FleetError;

/// Settings that an error may begin with or name, and the option that sets each of them.
const OPTIONS: [(&str, &str); 7] = [
    ("access.cookies", "--cookies"),
    ("access.proxy_resolves", "--proxy-resolves"),
    ("dns.resolve", "--resolve"),
    ("partition.mode", "--mode"),
    ("scope.exclude", "--exclude"),
    ("scope.include", "--include"),
    ("scope.scope", "--scope"),
];

/// The sentence, with the command that helps.
pub(crate) fn on(error: &CrawlError) -> String {
    match error {
        CrawlError::NoCrawl(dir) => format!(
            "{error}; 'portolan crawl --out {} URL' would start one there",
            dir.display()
        ),
        CrawlError::OtherThings(_) => format!("{error}; name another directory with --out"),
        CrawlError::NotBegun(dir) => format!(
            "{error}; 'portolan crawl --out {}' starts it",
            dir.display()
        ),
        CrawlError::HalfDivided(dir) => format!(
            "{error}; 'portolan crawl --out {}' goes on with it",
            dir.display()
        ),
        CrawlError::NothingFetched(dir) => format!(
            "{error}; 'portolan crawl --out {}' fetches them first",
            dir.display()
        ),
        CrawlError::BrokenPayload(_) => format!("{error}; --raw gives its bytes"),
        _ => error.to_string(),
    }
}

/// The sentence, with the command or the options that help.
pub(crate) fn on_fleet(error: &FleetError) -> String {
    match error {
        FleetError::NoJetStream(_) => {
            format!("{error}; 'portolan fleet nats-config' prints a configuration")
        }
        FleetError::NoHub { .. } => {
            format!("{error}; 'portolan fleet nats-config' prints configurations of hub and leaves")
        }
        FleetError::PlainText(_) => format!("{error}: give --ca, --cert and --key, or --insecure"),
        FleetError::NothingStored(store) => {
            format!("{error}; 'portolan fleet new NAME --blobs {store}' would make one")
        }
        FleetError::NoRoom => format!("{error} (--link-disk, --log-disk, --up-disk)"),
        FleetError::NoServer { why, .. } if why.contains("certificate") => {
            format!("{error}: give --ca, --cert and --key")
        }
        _ => error.to_string(),
    }
}

/// What a node says of its directory and its name, with the options that say which.
pub(crate) fn for_node(sentence: &str) -> String {
    sentence
        .replace(
            "name another directory",
            "name another directory with --dir",
        )
        .replace("join as ", "give --node ")
}

/// A sentence about a setting, with the option that sets it, where it has one and the sentence names none.
pub(crate) fn with_options(sentence: &str) -> String {
    if sentence.contains("there is no setting") || sentence.contains("there is no such setting") {
        let end = if sentence.ends_with('?') { "" } else { ";" };
        return format!("{sentence}{end} 'portolan config' lists them all");
    }
    if sentence.ends_with("[[host]] blocks have headers for one") {
        return format!("{sentence}, and so have --auth and --bearer");
    }
    if sentence.ends_with("which is made from an earlier crawl's graph") {
        return format!("{sentence}: 'portolan rank DIR --out FILE' writes one");
    }
    let named = OPTIONS
        .iter()
        .find(|(setting, _)| is_named(sentence, setting));
    match named {
        Some((setting, option)) if !sentence.contains(option) => {
            let typed = format!("{option} (setting {setting})");
            let whole = format!("setting {setting}");
            match sentence.contains(&whole) {
                true => sentence.replacen(&whole, &typed, 1),
                false => sentence.replacen(setting, &typed, 1),
            }
        }
        _ => sentence.to_owned(),
    }
}

/// Is the setting a word of the sentence, and not a part of a longer one?
fn is_named(sentence: &str, setting: &str) -> bool {
    let Some((before, after)) = sentence.split_once(setting) else {
        return false;
    };
    let is_end = |c: Option<char>| c.is_none_or(|c| matches!(c, ' ' | ':' | ')' | '('));
    is_end(before.chars().next_back()) && is_end(after.chars().next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_told_with_its_option() {
        for (sentence, told) in [
            (
                "scope.include '(' is not a regular expression",
                "--include (setting scope.include) '(' is not a regular expression",
            ),
            (
                "setting scope.exclude '(' is not a regular expression",
                "--exclude (setting scope.exclude) '(' is not a regular expression",
            ),
            (
                "access.cookies: jar: no such file",
                "--cookies (setting access.cookies): jar: no such file",
            ),
            ("scope.includes is none", "scope.includes is none"),
            ("host.scope.include is none", "host.scope.include is none"),
            ("nothing is wrong", "nothing is wrong"),
        ] {
            assert_eq!(with_options(sentence), told);
        }
    }

    #[test]
    fn an_error_is_told_with_the_command_that_helps() {
        let error = CrawlError::NoCrawl("there".into());
        assert_eq!(
            on(&error),
            "there holds no crawl; 'portolan crawl --out there URL' would start one there"
        );
        assert!(on_fleet(&FleetError::NoRoom).contains("--link-disk, --log-disk"));
    }
}
