//! Which tables a site keeps beside its documents, and what they are called: the document's name with `.tol` or `.tvi` behind it.

/// A kind of table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Table {
    /// Links, see `Tol`.
    Tol,
    /// Volatile parts, see `Tvi`.
    Tvi,
}

/// What a URL that ends in `/` stands for.
const INDEX: &str = "index.html";

/// Extensions of documents that may have tables. A name without one may be a document's, too.
const HTML: [&str; 4] = ["html", "htm", "xhtml", "xht"];
const XML: [&str; 3] = ["xml", "rss", "atom"];

impl Table {
    /// Its name in robots.txt, as a link relation and as an extension.
    pub fn name(self) -> &'static str {
        match self {
            Table::Tol => "tol",
            Table::Tvi => "tvi",
        }
    }

    /// The path of the table of the document at `path`. `None` where there is none: what has a query has no tables, and pictures,
    /// programs and the like have none.
    ///
    /// ```
    /// use portolan_content::Table;
    ///
    /// assert_eq!(Table::Tol.path_of("/guide.html").as_deref(), Some("/guide.html.tol"));
    /// assert_eq!(Table::Tol.path_of("/docs/").as_deref(), Some("/docs/index.html.tol"));
    /// assert_eq!(Table::Tol.path_of("/guide.html?page=2"), None);
    /// ```
    pub fn path_of(self, path: &str) -> Option<String> {
        if path.contains(['?', '#']) {
            return None;
        }
        let name = path.rsplit('/').next().unwrap_or_default();
        let index = match name.rsplit_once('.') {
            None if name.is_empty() => INDEX,
            None => "",
            Some((_, extension)) => {
                let is_one_of = |known: &[&str]| {
                    known
                        .iter()
                        .any(|known| known.eq_ignore_ascii_case(extension))
                };
                if !(is_one_of(&HTML) || self == Table::Tvi && is_one_of(&XML)) {
                    return None;
                }
                ""
            }
        };
        Some(format!("{path}{index}.{}", self.name()))
    }

    /// Does a `Link` header say that the document has this table? `is_it` tells whether a target, as written, is the table's URL.
    pub fn is_told(self, link: &str, is_it: impl Fn(&str) -> bool) -> bool {
        // A comma within <> is a part of the URL.
        link.split('<').skip(1).any(|link| {
            let Some((target, parameters)) = link.split_once('>') else {
                return false;
            };
            let is_relation = parameters.split(';').any(|parameter| {
                let Some((name, value)) = parameter.split_once('=') else {
                    return false;
                };
                let value = value.trim().trim_end_matches(',').trim().trim_matches('"');
                name.trim().eq_ignore_ascii_case("rel")
                    && value
                        .split_ascii_whitespace()
                        .any(|relation| relation.eq_ignore_ascii_case(self.name()))
            });
            is_relation && is_it(target)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_have_tables_and_pictures_have_none() {
        let path = |path| Table::Tvi.path_of(path);
        assert_eq!(path("/a/feed.RSS").as_deref(), Some("/a/feed.RSS.tvi"));
        assert_eq!(path("/about").as_deref(), Some("/about.tvi"));
        assert_eq!(path("/x.png"), None);
        assert_eq!(path("/a.html.tvi"), None);
        assert_eq!(Table::Tol.path_of("/feed.xml"), None);
    }

    #[test]
    fn a_link_header_names_tables() {
        let head = "</style.css>; rel=preload, <guide.html.tol>; type=\"text/plain\"; rel=\"x Tol\", </a,b.tvi>; rel=tvi";
        assert!(Table::Tol.is_told(head, |target| target == "guide.html.tol"));
        assert!(!Table::Tol.is_told(head, |target| target == "/style.css"));
        assert!(Table::Tvi.is_told(head, |target| target == "/a,b.tvi"));
        for nonsense in ["", "<", "<>;rel", ">;rel=tol", "<x>;rel=\"tol"] {
            Table::Tol.is_told(nonsense, |_| false);
        }
    }
}
