//! The line that a person watches: as many of its fields as the terminal has room for, the most telling ones first, and never a
//! column more.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::output::field;

const GAP: &str = "  ";

/// A shorter piece of a URL tells nothing.
const LEAST_URL: usize = 24;

/// How a field looks where there are colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    Bold,
    Dim,
    Warning,
}

impl Style {
    fn code(self) -> &'static str {
        match self {
            Style::Plain => "",
            Style::Bold => "\x1b[1m",
            Style::Dim => "\x1b[2m",
            Style::Warning => "\x1b[33m",
        }
    }
}

#[derive(Debug, Clone)]
struct Field {
    text: String,
    style: Style,
    /// Fields with the highest rank go first where there is no room for all.
    rank: u8,
}

/// Fields from left to right, and what fills the rest.
#[derive(Debug, Clone, Default)]
pub(crate) struct Line {
    fields: Vec<Field>,
}

impl Line {
    pub(crate) fn add(&mut self, rank: u8, style: Style, text: String) {
        self.fields.push(Field { text, style, rank });
    }

    /// Without the fields that do not fit into `columns`, and with the beginning of `url` where there is room for it. If
    /// `url_first`, other fields make room for it.
    pub(crate) fn fitted(mut self, columns: usize, url: Option<&str>, url_first: bool) -> Self {
        self.shrink(columns);
        let Some(url) = url else {
            return self;
        };
        let before_url = columns.saturating_sub(GAP.len() + LEAST_URL);
        if url_first
            && self
                .fields
                .iter()
                .any(|f| f.rank == 0 && f.text.width() <= before_url)
        {
            self.shrink(before_url);
        }
        let room = columns.saturating_sub(self.columns() + GAP.len());
        if room >= LEAST_URL {
            self.add(u8::MAX, Style::Dim, clipped(&field(url).to_string(), room));
        }
        self
    }

    fn shrink(&mut self, columns: usize) {
        while self.fields.len() > 1 && self.columns() > columns {
            let ranks = self.fields.iter().enumerate();
            if let Some((least, _)) = ranks.max_by_key(|(_, field)| field.rank) {
                self.fields.remove(least);
            }
        }
        if let [only] = self.fields.as_mut_slice() {
            only.text = clipped(&only.text, columns);
        }
    }

    pub(crate) fn columns(&self) -> usize {
        let texts: usize = self.fields.iter().map(|field| field.text.width()).sum();
        texts + GAP.len() * self.fields.len().saturating_sub(1)
    }

    pub(crate) fn text(&self, colours: bool) -> String {
        let shown = |field: &Field| match (colours, field.style) {
            (false, _) | (_, Style::Plain) => field.text.clone(),
            (true, style) => format!("{}{}\x1b[0m", style.code(), field.text),
        };
        let shown: Vec<String> = self.fields.iter().map(shown).collect();
        shown.join(GAP)
    }
}

/// The beginning of a text that takes `columns` at most, with a mark where it is cut.
pub(crate) fn clipped(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let mut left = columns.saturating_sub(1);
    let fits = |c: &char| {
        let width = c.width().unwrap_or(0);
        let fits = width <= left;
        left = left.saturating_sub(width);
        fits
    };
    let mut clipped: String = text.chars().take_while(fits).collect();
    if columns > 0 {
        clipped.push('…');
    }
    clipped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line() -> Line {
        let mut line = Line::default();
        for (rank, text) in [
            (3, "12.0 s"),
            (0, "1,204 pages"),
            (1, "98/s"),
            (2, "3,401 due"),
            (4, "2 failing"),
        ] {
            line.add(rank, Style::Bold, text.to_owned());
        }
        line
    }

    #[test]
    fn what_tells_least_goes_first_and_nothing_is_wider_than_the_terminal() {
        let whole = "12.0 s  1,204 pages  98/s  3,401 due  2 failing";
        assert_eq!(line().fitted(200, None, false).text(false), whole);
        for columns in 0..200 {
            for url in [
                None,
                Some("http://example.org/東京/ページ/👩\u{200d}💻/long"),
                Some("http://a.test/\x1b[2J\n"),
            ] {
                for first in [false, true] {
                    let line = line().fitted(columns, url, first);
                    assert!(line.columns() <= columns, "{columns}: {}", line.text(false));
                    assert_eq!(line.text(false).width(), line.columns());
                    assert!(!line.text(false).contains(|c: char| c.is_control()));
                }
            }
        }
        assert_eq!(
            line().fitted(40, None, false).text(false),
            "12.0 s  1,204 pages  98/s  3,401 due"
        );
        assert_eq!(
            line().fitted(20, None, false).text(false),
            "1,204 pages  98/s"
        );
        assert_eq!(line().fitted(8, None, false).text(false), "1,204 p…");
    }

    #[test]
    fn a_url_has_the_room_that_is_left_or_is_given_some_now_and_then() {
        let url = "http://example.org/a/rather/long/path/to/a/page.html";
        let text = |columns, first| line().fitted(columns, Some(url), first).text(false);
        assert!(text(200, false).ends_with(&format!("  {url}")));
        assert!(text(80, false).ends_with("  http://example.org/a/rather/lo…"));
        assert!(!text(60, false).contains("http"));
        assert_eq!(
            text(60, true),
            "1,204 pages  98/s  3,401 due  http://example.org/a/rather/l…"
        );
        assert!(!text(30, true).contains("http"), "not even then");
    }

    #[test]
    fn wide_characters_count_twice() {
        assert_eq!(clipped("東京の天気", 10), "東京の天気");
        assert_eq!(clipped("東京の天気", 9), "東京の天…");
        assert_eq!(clipped("東京の天気", 8), "東京の…");
        assert_eq!(clipped("東京", 0), "");
    }
}
