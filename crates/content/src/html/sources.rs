//! Attributes that hold more than one URL or only a part of one: `srcset` and the parts of APPLET.

/// The URLs of a `srcset`, without their sizes.
pub(super) fn srcset_urls(srcset: &str) -> impl Iterator<Item = &str> {
    let mut rest = srcset;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches(|c: char| is_space(c) || c == ',');
        if rest.is_empty() {
            return None;
        }
        let (url, after) = rest.split_at(rest.find(is_space).unwrap_or(rest.len()));
        if url.ends_with(',') {
            // No size: the comma belongs to the list, not to the URL.
            rest = after;
            return Some(url.trim_end_matches(','));
        }
        rest = &after[size_bytes(after)..];
        Some(url)
    })
}

/// How long the size of a URL is: up to the next comma outside parentheses.
fn size_bytes(text: &str) -> usize {
    let mut inside = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'(' => inside = true,
            b')' => inside = false,
            b',' if !inside => return at,
            _ => {}
        }
    }
    text.len()
}

/// The files an APPLET names: its archives, or its class if it has none, below its code base.
pub(super) fn applet_files(
    code: Option<&str>,
    archive: Option<&str>,
    codebase: Option<&str>,
) -> Vec<String> {
    let base = match codebase.map(str::trim).unwrap_or_default() {
        "" => String::new(),
        base if base.ends_with('/') => base.to_owned(),
        base => format!("{base}/"),
    };
    let archives = archive.unwrap_or_default().split(',').map(str::trim);
    let files: Vec<String> = archives
        .filter(|name| !name.is_empty())
        .map(|name| format!("{base}{name}"))
        .collect();
    if !files.is_empty() {
        return files;
    }
    let class = code.map(str::trim).filter(|code| !code.is_empty());
    let path = class.map(|code| {
        code.strip_suffix(".class")
            .unwrap_or(code)
            .replace('.', "/")
    });
    path.map(|path| format!("{base}{path}.class"))
        .into_iter()
        .collect()
}

fn is_space(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\x0c' | '\r' | ' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn srcset_of_every_kind() {
        let urls = |text| srcset_urls(text).collect::<Vec<_>>();
        assert_eq!(urls("a.png 1x, b.png 2x"), ["a.png", "b.png"]);
        assert_eq!(urls(" ,a, b ,c,"), ["a", "b", "c"]);
        assert_eq!(urls("a,b 100w (x, y), c"), ["a,b", "c"]);
        assert_eq!(urls("data:,x 1x"), ["data:,x"]);
        assert!(urls(" , ").is_empty());
    }

    #[test]
    fn applets_name_a_class_or_archives() {
        assert_eq!(
            applet_files(Some("a.B.class"), None, Some("x")),
            ["x/a/B.class"]
        );
        assert_eq!(applet_files(Some("B"), None, None), ["B.class"]);
        assert_eq!(
            applet_files(Some("B"), Some("a.jar, b.jar"), Some("x/")),
            ["x/a.jar", "x/b.jar"]
        );
        assert!(applet_files(None, Some(" "), Some("x")).is_empty());
    }
}
