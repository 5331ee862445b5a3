//! The header line of ARC version 1, the format before WARC. Read-only: nothing here writes it.

use super::reader::WarcRecord;

/// How every ARC file starts.
pub(super) const OPENING: &[u8] = b"filedesc://";

/// `URL IP-address Archive-date Content-type Archive-length`. URLs with spaces are met with, so
/// fields are counted from the end.
pub(super) fn parse_header(line: &str, bytes: &[u8], offset: u64) -> Option<WarcRecord> {
    let mut fields = line.rsplitn(5, ' ');
    let length = fields.next()?;
    let mime = fields.next()?;
    let date = fields.next()?;
    let address = fields.next()?;
    let url = fields.next()?;
    if !url.contains(':') || date.len() < 4 || !date.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let kind = if url.starts_with("filedesc:") {
        "arc-header"
    } else {
        "response"
    };
    let headers = [
        ("WARC-Type", kind),
        ("WARC-Target-URI", url),
        ("WARC-IP-Address", address),
        ("WARC-Date", date),
        ("Content-Type", mime),
        ("Content-Length", length),
    ];
    Some(WarcRecord {
        offset,
        version: "ARC/1".to_owned(),
        headers: headers
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
        block_length: length.parse().ok(),
        header_bytes: bytes.to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_counted_from_the_end() {
        let record = parse_header("http://a/x y 1.2.3.4 20140216050221 text/html 12", b"", 7)
            .expect("a header line");
        assert_eq!(record.header("warc-target-uri"), Some("http://a/x y"));
        assert_eq!(record.block_length, Some(12));
        assert_eq!(record.offset, 7);
        assert!(parse_header("<p>a b c d e</p>", b"", 0).is_none());
        assert!(parse_header("", b"", 0).is_none());
        let negative = parse_header("http://a/ 1.2.3.4 20140216050221 text/html -1", b"", 0);
        assert_eq!(negative.expect("a header line").block_length, None);
    }
}
