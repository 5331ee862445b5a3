//! The charset of a page against html5lib's encoding tests.

mod conformance;

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};
use portolan_content::charset::CharsetSource;
use portolan_content::html::{PageScanner, ScanOptions};

/// However the page is cut, the letters before the first other byte count.
#[test]
fn detection_sees_the_ascii_before() {
    let page = b"<title>Le gar\xe7on</title>";
    for step in [1, 2, 3, 12, page.len()] {
        assert_eq!(scan(page, step), "windows-1252", "in pieces of {step}");
    }
}

#[test]
fn html5lib_encoding_tests() {
    let Some(folder) = conformance::folder("html/encoding") else {
        return;
    };
    let mut cases = 0;
    let mut failures = Vec::new();
    for path in conformance::files(&folder, "dat") {
        let file = path.file_name().unwrap().to_string_lossy().into_owned();
        let bytes = std::fs::read(&path).unwrap();
        for (at, (data, expected)) in parse(&bytes).into_iter().enumerate() {
            cases += 1;
            let number = at + 1;
            let expected = Encoding::for_label(expected.as_bytes())
                .expect("a known label")
                .name();
            let found = scan(&data, data.len().max(1));
            assert_eq!(
                found,
                scan(&data, 7),
                "{file} {number}: the chunks made a difference"
            );
            if found != expected {
                let data = String::from_utf8_lossy(&data);
                failures.push(format!(
                    "{file} {number}: expected {expected}, found {found}\n{data}"
                ));
            }
        }
    }
    println!("html5lib encoding: {cases} cases, no deliberate differences");
    println!("{}", failures.join("\n---\n"));
    assert!(cases > 50, "only {cases} cases");
    assert!(failures.is_empty(), "{} differences", failures.len());
}

/// The name of the page's charset. Where nothing is declared and nothing but ASCII tells, the tests
/// expect the default of Western browsers.
fn scan(page: &[u8], chunk: usize) -> &'static str {
    let mut scanner = PageScanner::new(&ScanOptions::default(), None);
    for piece in page.chunks(chunk) {
        scanner.feed(piece, &mut |_| {});
    }
    let charset = scanner.finish(&mut |_| {}).charset;
    match charset.source {
        CharsetSource::Ascii => {
            assert_eq!(charset.encoding, UTF_8);
            WINDOWS_1252.name()
        }
        _ => charset.encoding.name(),
    }
}

/// The pairs of `#data` and `#encoding` in a file.
fn parse(bytes: &[u8]) -> Vec<(Vec<u8>, String)> {
    let mut cases: Vec<(Vec<u8>, String)> = Vec::new();
    let mut in_data = false;
    for line in bytes.split_inclusive(|&b| b == b'\n') {
        match line.trim_ascii_end() {
            b"#data" => {
                cases.push(Default::default());
                in_data = true;
            }
            b"#encoding" => in_data = false,
            content => {
                let case = cases.last_mut().expect("data before a case");
                if in_data {
                    case.0.extend_from_slice(line);
                } else if !content.is_empty() {
                    case.1 = String::from_utf8(content.to_vec()).unwrap();
                }
            }
        }
    }
    cases
}
