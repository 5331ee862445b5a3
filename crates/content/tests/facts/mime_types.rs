//! web-platform-tests' MIME types: what parses, and how it is written again.

use portolan_content::MimeType;
use serde_json::Value;

use crate::data;

#[test]
fn mime_types_parse_as_the_standard_says() {
    let Some(folder) = data::folder("wpt/mimesniff") else {
        return;
    };
    for (file, expected_cases) in [("mime-types.json", 74), ("generated-mime-types.json", 881)] {
        let bytes = data::read(&folder, file);
        let cases: Vec<Value> = serde_json::from_slice(&bytes).expect("a list of cases");
        let mut run = 0;
        let mut encodings = 0;
        // Strings in the list are headings.
        for case in cases.iter().filter(|case| case.is_object()) {
            let input = case["input"].as_str().expect("an input");
            let parsed = MimeType::parse(input);
            let written = parsed.as_ref().map(MimeType::to_string);
            assert_eq!(
                written.as_deref(),
                case["output"].as_str(),
                "{file}: {input:?}"
            );
            if input.chars().all(|c| c <= '\u{FF}') {
                let octets: Vec<u8> = input.chars().map(|c| c as u8).collect();
                assert_eq!(
                    MimeType::parse_header(&octets),
                    parsed,
                    "{file}: {input:?} as octets"
                );
            }
            if let Some(expected) = case.get("encoding") {
                let label = parsed.as_ref().and_then(MimeType::charset);
                let encoding =
                    label.and_then(|label| encoding_rs::Encoding::for_label(label.as_bytes()));
                assert_eq!(
                    encoding.map(|e| e.name()),
                    expected.as_str(),
                    "{file}: encoding of {input:?}"
                );
                encodings += 1;
            }
            run += 1;
        }
        println!("{file}: {run} cases, {encodings} with an encoding");
        assert_eq!(run, expected_cases, "{file}");
    }
}

/// Of the standard's groups we know two.
#[test]
fn groups() {
    let Some(folder) = data::folder("wpt/mimesniff") else {
        return;
    };
    let bytes = data::read(&folder, "mime-groups.json");
    let cases: Vec<Value> = serde_json::from_slice(&bytes).expect("a list of cases");
    let mut run = 0;
    for case in cases.iter().filter(|case| case.is_object()) {
        let input = case["input"].as_str().expect("an input");
        let groups: Vec<&str> = case["groups"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let parsed = MimeType::parse(input).unwrap_or_else(|| panic!("{input} does not parse"));
        assert_eq!(parsed.is_xml(), groups.contains(&"XML"), "{input}");
        assert_eq!(parsed.is_html(), groups.contains(&"HTML"), "{input}");
        run += 1;
    }
    println!("mime-groups.json: {run} cases");
    assert_eq!(run, 146);
}
