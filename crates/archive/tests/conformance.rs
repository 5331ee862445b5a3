//! The WARC reader against files that others wrote: reads the good, names what is wrong in the bad.

mod support;

use portolan_archive::{Format, list, verify};

struct Case {
    file: &'static str,
    format: Format,
    records: u64,
    /// Offset and name of every fault.
    faults: &'static [(u64, &'static str)],
}

const fn case(
    file: &'static str,
    format: Format,
    records: u64,
    faults: &'static [(u64, &'static str)],
) -> Case {
    Case {
        file,
        format,
        records,
        faults,
    }
}

const CASES: &[Case] = &[
    case(
        "bad.arc",
        Format::Arc,
        4,
        &[
            (0, "bad-content-length"),
            (134, "bad-content-length"),
            (134, "bad-date"),
            (262, "bad-content-length"),
            (262, "bad-date"),
        ],
    ),
    // One gzip member for the whole file.
    case(
        "example-bad-non-chunked.warc.gz",
        Format::WarcGz,
        6,
        &[
            (0, "not-own-member"),
            (0, "not-own-member"),
            (0, "not-own-member"),
            (0, "not-own-member"),
            (0, "not-own-member"),
        ],
    ),
    // The same, and its requests lack the blank line that ends a head.
    case(
        "example-bad.warc.gz.bad",
        Format::WarcGz,
        6,
        &[
            (0, "not-own-member"),
            (0, "not-own-member"),
            (0, "bad-http-head"),
            (0, "not-own-member"),
            (0, "not-own-member"),
            (0, "bad-http-head"),
            (0, "not-own-member"),
        ],
    ),
    // A digest with a letter that base32 does not have; four records with one id.
    case(
        "example-digest.warc",
        Format::Warc,
        4,
        &[
            (0, "bad-digest"),
            (922, "duplicate-record-id"),
            (1840, "duplicate-record-id"),
            (2758, "duplicate-record-id"),
        ],
    ),
    case("example-iana.org-chunked.warc", Format::Warc, 3, &[]),
    case("example-resource.warc.gz", Format::WarcGz, 3, &[]),
    case(
        "example-space-in-target-uri.warc.gz",
        Format::WarcGz,
        2,
        &[(241, "bad-target-uri")],
    ),
    // Its second record says 1591 bytes and has 1579.
    case(
        "example-space-in-url.arc",
        Format::Arc,
        2,
        &[(151, "truncated-record"), (151, "bad-target-uri")],
    ),
    // Bytes were lost from the middle of its response.
    case(
        "example-trunc.warc",
        Format::Warc,
        4,
        &[
            (1197, "bad-record-end"),
            (1197, "block-digest"),
            (1197, "payload-digest"),
        ],
    ),
    // Wget's angle brackets.
    case(
        "example-wget-bad-target-uri.warc.gz",
        Format::WarcGz,
        6,
        &[
            (410, "bad-target-uri"),
            (824, "bad-target-uri"),
            (1978, "bad-target-uri"),
            (2295, "bad-target-uri"),
            (2681, "bad-target-uri"),
        ],
    ),
    // A record cut into three gzip members, with a Content-Length that is one too small.
    case(
        "example-wrong-chunks.warc.gz",
        Format::WarcGz,
        2,
        &[
            (0, "spans-members"),
            (0, "bad-record-end"),
            (0, "block-digest"),
            (1130, "stray-bytes"),
        ],
    ),
    case("example.arc", Format::Arc, 2, &[]),
    case("example.arc.gz", Format::ArcGz, 2, &[]),
    case("example.warc", Format::Warc, 6, &[]),
    case("example.warc.gz", Format::WarcGz, 6, &[]),
    case("post-test.warc.gz", Format::WarcGz, 6, &[]),
];

#[test]
fn reads_the_good_and_names_what_is_wrong_in_the_bad() {
    let Some(dir) = support::conformance("warc") else {
        return;
    };
    let mut wrong = Vec::new();
    for case in CASES {
        let report = verify(&dir.join(case.file)).expect("readable");
        let faults: Vec<(u64, &str)> = report
            .findings
            .iter()
            .map(|finding| (finding.offset, finding.fault.name()))
            .collect();
        if report.format != Some(case.format)
            || report.records != case.records
            || faults != case.faults
        {
            wrong.push(format!("{}: {report:#?}", case.file));
        }
        let listed = list(&dir.join(case.file)).expect("readable");
        let listed: Vec<_> = listed.collect::<Result<_, _>>().expect("listed");
        assert_eq!(listed.len() as u64, case.records);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let all = support::files(&dir).len();
    assert_eq!(all, CASES.len(), "every file has its line in the table");
    println!("{} WARC and ARC files of others", CASES.len());
}
