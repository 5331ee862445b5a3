//! Two texts beside each other: which lines are in both, and which in one of them.

use std::io::{self, Write};

use crate::output::field;

/// Lines beyond this many are compared in their order, without looking for the best match.
const MAX_COMPARED: usize = 2_000;
/// Columns for each of the two.
const WIDTH: usize = 60;

/// A line of the left text, of the right one, or of both.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Row<'a> {
    left: Option<&'a str>,
    right: Option<&'a str>,
}

/// The text of a document in lines: of HTML what a reader sees, a line for each block.
pub(crate) fn lines_of(body: &[u8], mime: &str, charset: &str) -> Vec<String> {
    let encoding =
        encoding_rs::Encoding::for_label(charset.as_bytes()).unwrap_or(encoding_rs::UTF_8);
    let (text, ..) = encoding.decode(body);
    let text = match mime.contains("html") {
        true => without_tags(&text),
        false => text.into_owned(),
    };
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines = text.lines().map(words);
    lines.filter(|line| !line.is_empty()).collect()
}

/// Tags end lines; scripts and styles are left out.
fn without_tags(html: &str) -> String {
    let mut text = String::with_capacity(html.len());
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        let end = |of: &str, mark: &str| of.find(mark).map_or(of.len(), |at| at + mark.len());
        let name: String = rest[1..]
            .chars()
            .take_while(|c| c.is_ascii_alphanumeric() || *c == '/')
            .collect::<String>()
            .to_ascii_lowercase();
        let skipped = match name.as_str() {
            "script" => end(rest, "</script>"),
            "style" => end(rest, "</style>"),
            _ if rest.starts_with("<!--") => end(rest, "-->"),
            _ => end(rest, ">"),
        };
        const IN_LINE: [&str; 8] = ["a", "b", "i", "em", "strong", "span", "code", "u"];
        if !IN_LINE.contains(&name.trim_start_matches('/')) {
            text.push('\n');
        }
        rest = &rest[skipped..];
    }
    text.push_str(rest);
    text
}

/// The longest common lines stand beside each other.
pub(crate) fn compare<'a>(left: &'a [String], right: &'a [String]) -> Vec<Row<'a>> {
    if left.len() > MAX_COMPARED || right.len() > MAX_COMPARED {
        let longest = left.len().max(right.len());
        let line = |of: &'a [String], at: usize| of.get(at).map(String::as_str);
        return (0..longest)
            .map(|at| Row {
                left: line(left, at),
                right: line(right, at),
            })
            .collect();
    }
    let columns = right.len() + 1;
    // How many lines are common from here on.
    let mut common = vec![0_u16; (left.len() + 1) * columns];
    for l in (0..left.len()).rev() {
        for r in (0..right.len()).rev() {
            common[l * columns + r] = match left[l] == right[r] {
                true => common[(l + 1) * columns + r + 1] + 1,
                false => common[(l + 1) * columns + r].max(common[l * columns + r + 1]),
            };
        }
    }
    let mut rows = Vec::new();
    let (mut l, mut r) = (0, 0);
    while l < left.len() || r < right.len() {
        let both = l < left.len() && r < right.len();
        if both && left[l] == right[r] {
            rows.push(Row {
                left: Some(&left[l]),
                right: Some(&right[r]),
            });
            (l, r) = (l + 1, r + 1);
        } else if r == right.len()
            || (both && common[(l + 1) * columns + r] >= common[l * columns + r + 1])
        {
            rows.push(Row {
                left: Some(&left[l]),
                right: None,
            });
            l += 1;
        } else {
            rows.push(Row {
                left: None,
                right: Some(&right[r]),
            });
            r += 1;
        }
    }
    rows
}

/// Two columns, with a mark between them for lines that are not in both.
pub(crate) fn write(out: &mut impl Write, rows: &[Row<'_>]) -> io::Result<()> {
    for row in rows {
        let mark = match (row.left, row.right) {
            (Some(left), Some(right)) if left == right => ' ',
            (Some(_), Some(_)) => '|',
            (Some(_), None) => '-',
            (None, _) => '+',
        };
        let cut = |line: Option<&str>| {
            let line: String = line.unwrap_or_default().chars().take(WIDTH).collect();
            field(&line).to_string()
        };
        let line = format!("{:<WIDTH$} {mark} {}", cut(row.left), cut(row.right));
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_in_both_stand_beside_each_other() {
        let lines = |html: &str| lines_of(html.as_bytes(), "text/html", "utf-8");
        let left = lines("<h1>News</h1><p>old <b>story</b></p><p>end</p><script>x<y</script>");
        let right = lines("<h1>News</h1><p>new</p><p>story</p><p>end</p><!-- > -->");
        assert_eq!(left, ["News", "old story", "end"]);
        assert_eq!(right, ["News", "new", "story", "end"]);
        let mut shown = Vec::new();
        write(&mut shown, &compare(&left, &right)).expect("written");
        let shown = String::from_utf8(shown).expect("text");
        let marks: String = shown
            .lines()
            .map(|l| l.chars().nth(WIDTH + 1).unwrap_or(' '))
            .collect();
        assert_eq!(marks, " -++ ", "{shown}");
        // An open tag at the end is no reason to stumble.
        assert_eq!(lines("a<b"), ["a"]);
    }
}
