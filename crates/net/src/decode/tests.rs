use super::*;
use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use std::io::Write;

const LIMIT: u64 = 10_000_000;

fn page() -> Vec<u8> {
    let mut text = Vec::new();
    for n in 0..3_000u32 {
        writeln!(
            text,
            "<p><a href=\"/page/{}\">{}</a>",
            n.wrapping_mul(2_654_435_761),
            n
        )
        .unwrap();
    }
    text
}

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

fn zlib(data: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

fn raw_deflate(data: &[u8], level: u32) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::new(level));
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

fn br(data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = brotli::CompressorWriter::new(&mut out, 4_096, 5, 22);
    encoder.write_all(data).unwrap();
    drop(encoder);
    out
}

fn zst(data: &[u8]) -> Vec<u8> {
    zstd::encode_all(data, 3).unwrap()
}

fn decode(header: &str, wire: &[u8], step: usize) -> (Vec<u8>, Result<(), DecodeEnd>) {
    let mut decoder = Decoder::for_encoding(header, LIMIT).unwrap();
    let mut out = Vec::new();
    let mut result = Ok(());
    for piece in wire.chunks(step) {
        result = decoder.push(piece, &mut out);
    }
    (out, result.and_then(|()| decoder.finish()))
}

#[test]
fn every_encoding_in_pieces_of_many_sizes() {
    let page = page();
    let two_members = [gzip(&page[..1_000]), gzip(&page[1_000..])].concat();
    let two_frames = [zst(&page[..1_000]), zst(&page[1_000..])].concat();
    let padded = [gzip(&page), vec![0; 100]].concat();
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("gzip", gzip(&page)),
        ("X-GZIP", gzip(&page)),
        ("gzip", two_members),
        ("gzip", padded),
        ("deflate", zlib(&page)),
        ("deflate", raw_deflate(&page, 6)),
        ("deflate", raw_deflate(&page, 0)),
        ("br", br(&page)),
        ("zstd", zst(&page)),
        ("zstd", two_frames),
        ("identity, gzip", gzip(&page)),
        ("gzip, br", br(&gzip(&page))),
        ("zstd,gzip,deflate", zlib(&gzip(&zst(&page)))),
    ];
    for (header, wire) in &cases {
        for step in [1, 7, 1_000, usize::MAX] {
            let (out, result) = decode(header, wire, step);
            assert!(out == page, "{header} by {step}: {} bytes", out.len());
            assert_eq!(result, Ok(()), "{header} by {step}");
        }
        let (out, result) = Decoder::decode_body(header, wire, LIMIT);
        assert!(out == page && result.is_ok(), "{header} at once");
    }
    println!("{} encodings", cases.len());
}

#[test]
fn what_is_not_encoded_or_not_known_is_left_alone() {
    for header in [
        "",
        "identity",
        " , identity",
        "aes128gcm",
        "gzip, x-unknown",
        "gzip,gzip,gzip,gzip",
    ] {
        assert!(Decoder::for_encoding(header, LIMIT).is_none(), "{header}");
        let (out, result) = Decoder::decode_body(header, b"as it is", LIMIT);
        assert_eq!((&*out, result), (b"as it is".as_slice(), Ok(())));
    }
    // Servers that only claim gzip.
    let mut decoder = Decoder::for_encoding("gzip", LIMIT).unwrap();
    let mut out = Vec::new();
    decoder.push(b"<html>", &mut out).unwrap();
    decoder.push(b"plain", &mut out).unwrap();
    decoder.finish().unwrap();
    assert_eq!(out, b"<html>plain");
    assert!(decoder.was_not_encoded());
}

#[test]
fn empty_bodies_are_whole() {
    for header in ["gzip", "deflate", "br", "zstd", "gzip, br"] {
        assert_eq!(decode(header, b"", 1), (Vec::new(), Ok(())), "{header}");
    }
    for (header, wire) in [
        ("gzip", gzip(b"")),
        ("deflate", zlib(b"")),
        ("br", br(b"")),
        ("zstd", zst(b"")),
    ] {
        assert_eq!(decode(header, &wire, 1), (Vec::new(), Ok(())), "{header}");
        assert_eq!(&*Decoder::decode_body(header, &wire, LIMIT).0, b"");
    }
}

#[test]
fn broken_and_cut_streams_keep_what_was_decoded() {
    let page = page();
    for (header, wire) in [
        ("gzip", gzip(&page)),
        ("deflate", zlib(&page)),
        ("deflate", raw_deflate(&page, 6)),
        ("br", br(&page)),
        ("zstd", zst(&page)),
    ] {
        for step in [100, usize::MAX] {
            let (out, result) = decode(header, &wire[..wire.len() / 2], step);
            assert_eq!(result, Err(DecodeEnd::Broken), "{header} cut");
            assert!(page.starts_with(&out), "{header} cut");
            // zstd decodes whole blocks only, and this page is one.
            assert!(
                header == "zstd" || out.len() > page.len() / 4,
                "{header}: {}",
                out.len()
            );

            let mut broken = wire.clone();
            let middle = broken.len() / 2;
            broken[middle..middle + 64].fill(0xff);
            let (out, result) = decode(header, &broken, step);
            // Raw DEFLATE has no checksum: it may not notice.
            assert!(
                header == "deflate" || result == Err(DecodeEnd::Broken),
                "{header} broken"
            );
            assert!(out.len() as u64 <= LIMIT);
            if header == "gzip" {
                assert!(
                    out.len() > 1_000 && page.starts_with(&out[..1_000]),
                    "{}",
                    out.len()
                );
            }
        }
    }
    // A wrong checksum is noticed; the bytes are there all the same.
    let mut wrong = gzip(&page);
    let at = wrong.len() - 6;
    wrong[at] ^= 1;
    assert_eq!(
        decode("gzip", &wrong, 50),
        (page.clone(), Err(DecodeEnd::Broken))
    );
    let (out, result) = Decoder::decode_body("gzip", &wrong, LIMIT);
    assert!(out == page && result == Err(DecodeEnd::Broken));
}

#[test]
fn bombs_are_stopped_at_the_limit() {
    let zeros = vec![0; 5_000_000];
    let cases = [
        ("gzip", gzip(&zeros)),
        ("deflate", zlib(&zeros)),
        ("br", br(&zeros)),
        ("zstd", zst(&zeros)),
        ("gzip, gzip", gzip(&gzip(&zeros))),
    ];
    for (header, wire) in cases {
        let mut decoder = Decoder::for_encoding(header, 100_000).unwrap();
        let mut out = Vec::new();
        assert_eq!(
            decoder.push(&wire, &mut out),
            Err(DecodeEnd::TooLong),
            "{header}"
        );
        assert_eq!(out.len(), 100_000, "{header}");
        assert_eq!(decoder.push(&wire, &mut out), Err(DecodeEnd::TooLong));
        assert_eq!(decoder.finish(), Err(DecodeEnd::TooLong));
        let (out, result) = Decoder::decode_body(header, &wire, 100_000);
        assert_eq!(
            (out.len(), result),
            (100_000, Err(DecodeEnd::TooLong)),
            "{header}"
        );
    }
    // Small inside and small outside, but large in between.
    let inner = gzip(b"small");
    let wire = gzip(&[inner, vec![0; 5_000_000]].concat());
    let mut decoder = Decoder::for_encoding("gzip, gzip", 100_000).unwrap();
    let mut out = Vec::new();
    assert_eq!(decoder.push(&wire, &mut out), Err(DecodeEnd::TooLong));
    assert_eq!(out, b"small");
    // A trailer that lies about the size gets no memory.
    let mut liar = gzip(b"small");
    let at = liar.len() - 4;
    liar[at..].copy_from_slice(&u32::MAX.to_le_bytes());
    let (out, result) = Decoder::decode_body("gzip", &liar, u64::MAX);
    assert_eq!(
        (&*out, result),
        (b"small".as_slice(), Err(DecodeEnd::Broken))
    );
}

proptest::proptest! {
    /// Any bytes at all: an outcome, within the limit, and never a panic or an endless loop.
    #[test]
    fn rubbish_is_survived(
        header in "(gzip|deflate|br|zstd)(,(gzip|deflate|br|zstd))?",
        start in 0usize..6,
        wire in proptest::collection::vec(proptest::num::u8::ANY, 0..400),
        step in 1usize..50,
    ) {
        let starts: [&[u8]; 6] = [b"", &[0x1f, 0x8b, 8, 0], &[0x78, 0x9c], &[0x28, 0xb5, 0x2f, 0xfd], &[0x0b], &[0x1f]];
        let wire = [starts[start], &wire].concat();
        let mut decoder = Decoder::for_encoding(&header, 50_000).unwrap();
        let mut out = Vec::new();
        for piece in wire.chunks(step) {
            if decoder.push(piece, &mut out).is_err() {
                break;
            }
        }
        decoder.finish().ok();
        proptest::prop_assert!(out.len() <= 50_000);
        let (out, _) = Decoder::decode_body(&header, &wire, 50_000);
        proptest::prop_assert!(out.len() <= 50_000);
    }
}

#[test]
fn encodings_in_several_headers_are_undone_together() {
    let page = page();
    let head = |fields: &str| {
        let text = format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n");
        Head::parse(text.as_bytes(), &mut crate::Oddities::default()).unwrap()
    };
    for (fields, wire) in [
        (
            "Content-Encoding: deflate\r\nContent-Encoding: gzip",
            gzip(&zlib(&page)),
        ),
        (
            "Content-Encoding: gzip\r\nContent-Encoding: br",
            br(&gzip(&page)),
        ),
        (
            "Content-Encoding: gzip\r\nContent-Encoding: gzip",
            gzip(&page),
        ),
        (
            "Content-Encoding: gzip\r\nContent-Encoding: gzip",
            gzip(&gzip(&page)),
        ),
        // Said twice, done once: nothing in these streams tells but that they break.
        ("Content-Encoding: br\r\nContent-Encoding: BR", br(&page)),
        ("Content-Encoding: zstd, zstd", zst(&page)),
        ("Content-Encoding: deflate, deflate", zlib(&page)),
        ("Content-Encoding: br, br", br(&br(&page))),
        ("X: y", page.clone()),
    ] {
        let (decoded, result) = Decoder::decode_answer(&head(fields), &wire, LIMIT);
        assert_eq!(result, Ok(()), "{fields}");
        assert!(decoded == page, "{fields}");
    }
    let cut = &gzip(&page)[..1_000];
    let fields = "Content-Encoding: gzip\r\nContent-Encoding: gzip";
    let (decoded, result) = Decoder::decode_answer(&head(fields), cut, LIMIT);
    assert_eq!(result, Err(DecodeEnd::Broken));
    assert!(page.starts_with(&decoded) && !decoded.is_empty());
}
