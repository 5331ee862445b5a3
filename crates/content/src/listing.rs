//! Links in what is no HTML but leads on: listings of directories, as FTP servers write them, and Gopher menus. Lines that make no
//! sense are left out.

use std::fmt::Write;

/// Calls `link` with a relative link for each file and folder of a listing: one for machines (MLSD, RFC 3659), or one for people, as
/// `ls -l` and DOS write it. A folder's link ends in a slash. Symbolic links are left out: they may lead round in circles.
pub fn parse_listing(listing: &[u8], link: &mut dyn FnMut(&str)) {
    let mut href = String::new();
    for line in listing.split(|&b| b == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let found = machine_line(line)
            .or_else(|| unix_line(line))
            .or_else(|| dos_line(line));
        let Some((name, is_folder)) = found else {
            continue;
        };
        if name.is_empty() || name == b"." || name == b".." || name.contains(&b'/') {
            continue;
        }
        // A name with a colon would be taken for a scheme.
        href.clear();
        href.push_str("./");
        push_escaped(&mut href, name);
        if is_folder {
            href.push('/');
        }
        link(&href);
    }
}

/// `type=file;size=12; name`
fn machine_line(line: &[u8]) -> Option<(&[u8], bool)> {
    let space = line.iter().position(|&b| b == b' ')?;
    let (facts, name) = (&line[..space], &line[space + 1..]);
    if !facts.is_empty() && !facts.ends_with(b";") {
        return None;
    }
    let facts = std::str::from_utf8(facts).ok()?.to_ascii_lowercase();
    let mut kinds = facts
        .split(';')
        .filter_map(|fact| fact.strip_prefix("type="));
    match kinds.next()? {
        "file" => Some((name, false)),
        "dir" => Some((name, true)),
        // The folder itself and the one above it, links, and what servers invent. All of them are no name.
        _ => Some((b"", false)),
    }
}

/// `drwxr-xr-x   2 ftp  ftp      4096 Jan 01 2024 name`
fn unix_line(line: &[u8]) -> Option<(&[u8], bool)> {
    let is_folder = match line.first()? {
        b'd' => true,
        b'-' => false,
        b'l' => return Some((b"", false)),
        _ => return None,
    };
    let is_mode = |b: &u8| b.is_ascii_alphabetic() || *b == b'-';
    if line.len() < 10 || !line[1..10].iter().all(is_mode) {
        return None;
    }
    // The month is the first word of three letters with a day behind it. What follows day and time is the name, spaces and all.
    let words: Vec<(usize, &[u8])> = words(line).collect();
    let month = (2..words.len().saturating_sub(3)).find(|&n| {
        let is_month = MONTHS.iter().any(|m| words[n].1.eq_ignore_ascii_case(m));
        is_month && words[n + 1].1.iter().all(u8::is_ascii_digit)
    })?;
    let (start, time) = words[month + 2];
    let name = line.get(start + time.len() + 1..)?;
    Some((name, is_folder))
}

const MONTHS: [&[u8]; 12] = [
    b"jan", b"feb", b"mar", b"apr", b"may", b"jun", b"jul", b"aug", b"sep", b"oct", b"nov", b"dec",
];

/// `01-31-24  10:15AM       <DIR>          name`
fn dos_line(line: &[u8]) -> Option<(&[u8], bool)> {
    let is_date =
        |word: &[u8]| word.len() >= 8 && word.iter().all(|b| b.is_ascii_digit() || *b == b'-');
    let words: Vec<(usize, &[u8])> = words(line).take(4).collect();
    let [(0, date), _, (_, size), (start, _)] = words[..] else {
        return None;
    };
    let is_folder = size.eq_ignore_ascii_case(b"<DIR>");
    if !is_date(date) || !(is_folder || size.iter().all(u8::is_ascii_digit)) {
        return None;
    }
    Some((&line[start..], is_folder))
}

/// Words and where they begin.
fn words(line: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut at = 0;
    line.split(|&b| b == b' ').filter_map(move |word| {
        let start = at;
        at += word.len() + 1;
        (!word.is_empty()).then_some((start, word))
    })
}

/// Calls `link` with an absolute link for each item of a Gopher menu (RFC 1436) that is a document or a menu. Searches, telnet and
/// lines that only say something are left out.
pub fn parse_gopher_menu(menu: &[u8], link: &mut dyn FnMut(&str)) {
    let mut href = String::new();
    for line in menu.split(|&b| b == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line == b"." {
            return;
        }
        let Some((&item, rest)) = line.split_first() else {
            continue;
        };
        let mut fields = rest.split(|&b| b == b'\t').skip(1);
        let (Some(selector), Some(host), Some(port)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        if !item.is_ascii_graphic()
            || matches!(item, b'i' | b'2' | b'3' | b'7' | b'8' | b'T' | b'+')
        {
            continue;
        }
        href.clear();
        if item == b'h'
            && let Some(url) = selector.strip_prefix(b"URL:")
        {
            href.push_str(&String::from_utf8_lossy(url));
            link(&href);
            continue;
        }
        let (Ok(host), Ok(port)) = (std::str::from_utf8(host), std::str::from_utf8(port)) else {
            continue;
        };
        let Ok(port) = port.trim().parse::<u16>() else {
            continue;
        };
        // Writing to a text cannot fail.
        let _ = write!(href, "gopher://{}:{port}/", host.trim());
        push_escaped(&mut href, &[item]);
        push_escaped(&mut href, selector);
        link(&href);
    }
}

/// A name as it stands in a URL's path; slashes stay.
fn push_escaped(out: &mut String, name: &[u8]) {
    for &byte in name {
        if byte.is_ascii_alphanumeric() || b"-._~/!$&'()*+,;=:@".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn listed(listing: &[u8]) -> Vec<String> {
        let mut links = Vec::new();
        parse_listing(listing, &mut |href| links.push(href.to_owned()));
        links
    }

    #[test]
    fn listings_of_all_kinds_are_read() {
        let machine = b"type=cdir;modify=20240101000000; .\r\ntype=pdir; ..\r\n\
            Type=file;Size=12; a b.txt\r\ntype=dir; sub\r\ntype=OS.unix=slink:/x; link\r\n";
        assert_eq!(listed(machine), ["./a%20b.txt", "./sub/"]);
        let unix = b"total 8\r\n\
            drwxr-xr-x    2 0        0            4096 Jan 01  2024 sub folder\r\n\
            -rw-r--r--    1 ftp      ftp             12 Nov 18 10:15 a:b?.txt\r\n\
            lrwxrwxrwx    1 0        0               3 Jan 01  2024 l -> sub\r\n\
            drwxr-xr-x    2 0        0            4096 Jan 01  2024 ..\r\n";
        assert_eq!(listed(unix), ["./sub%20folder/", "./a:b%3F.txt"]);
        let dos = b"01-31-24  10:15AM       <DIR>          docs\r\n\
            01-31-2024  10:15AM             1234 read me.txt\r\n";
        assert_eq!(listed(dos), ["./docs/", "./read%20me.txt"]);
    }

    #[test]
    fn menus_lead_on() {
        let menu = b"iWelcome\tfake\t(NULL)\t0\r\n1Docs\t/docs\texample.org\t70\r\n\
            0Text\tread me?\texample.org\t7070\r\nhWeb\tURL:https://example.org/x\texample.org\t70\r\n\
            7Search\t/find\texample.org\t70\r\n8Telnet\t\texample.org\t23\r\n1bad\t/x\texample.org\tport\r\n\
            .\r\n0After\t/x\texample.org\t70\r\n";
        let mut links = Vec::new();
        parse_gopher_menu(menu, &mut |href| links.push(href.to_owned()));
        assert_eq!(
            links,
            [
                "gopher://example.org:70/1/docs",
                "gopher://example.org:7070/0read%20me%3F",
                "https://example.org/x",
            ]
        );
    }

    proptest! {
        #[test]
        fn whatever_comes_is_read(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            for link in listed(&bytes) {
                prop_assert!(link.starts_with("./") && link.is_ascii());
            }
            parse_gopher_menu(&bytes, &mut |_| {});
        }
    }
}
