//! The tokenizer against html5lib's tokenizer tests: the same tags, attributes and text, whole and
//! byte by byte.

mod conformance;

use portolan_content::html::tokenizer::{Content, TokenSink, Tokenizer};
use portolan_content::html::{Attributes, Ending, Place, Tag, decode_references};
use serde_json::Value;

/// Files that are not run, and why.
const NOT_RUN: &[(&str, &str)] = &[(
    "xmlViolation.test",
    "output coerced to an XML infoset, which nothing here makes",
)];

/// Token types that are not compared, and why.
const NOT_COMPARED: &[(&str, &str)] = &[
    ("Comment", "skipped"),
    ("DOCTYPE", "skipped"),
    ("errors", "a scanner of the Web has no use for them"),
    (
        "U+0000 in text",
        "told as U+FFFD in every state; a tree builder drops it anyway",
    ),
];

/// Cases that differ on purpose: file, description, state, why.
const DIFFERENT: &[(&str, &str, Content, &str)] = &[(
    "domjs.test",
    "lowercase endtags",
    Content::Script,
    "expects XMP's end tag to end script data; only SCRIPT's content is read so",
)];

#[derive(Debug, PartialEq, Eq, Clone)]
enum Token {
    Start {
        name: String,
        attributes: Vec<(String, String)>,
        self_closing: bool,
    },
    End(String),
    Text(String),
    Skipped,
}

#[test]
fn html5lib_tokenizer_tests() {
    let Some(folder) = conformance::folder("html/tokenizer") else {
        return;
    };
    let (mut cases, mut runs, mut surrogates) = (0, 0, 0);
    let mut failures = Vec::new();
    for path in conformance::files(&folder, "test") {
        let file = path.file_name().unwrap().to_string_lossy().into_owned();
        if NOT_RUN.iter().any(|(name, _)| *name == file) {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let json: Value = serde_json::from_str(&text).unwrap();
        for test in json["tests"].as_array().unwrap() {
            cases += 1;
            let Some(case) = Case::of(test) else {
                surrogates += 1;
                continue;
            };
            for state in &case.states {
                for chunk in [usize::MAX, 1, 3] {
                    runs += 1;
                    let found = case.run(*state, chunk);
                    let what = test["description"].as_str().unwrap();
                    let different = DIFFERENT
                        .iter()
                        .any(|d| d.0 == file && d.1 == what && d.2 == *state);
                    if (found == case.expected) == different {
                        failures.push(format!(
                            "{file}: {what} in {state:?}, chunks of {chunk}\n  input {:?}\n  \
                             expected {:?}\n  found    {found:?}\n  declared different: {different}",
                            case.input, case.expected
                        ));
                    }
                }
            }
        }
    }
    println!("html5lib tokenizer: {cases} cases, {runs} runs");
    println!("not run: {surrogates} cases with lone surrogates, which UTF-8 cannot hold");
    for (what, why) in NOT_RUN.iter().chain(NOT_COMPARED) {
        println!("deliberate difference: {what}: {why}");
    }
    for (file, what, state, why) in DIFFERENT {
        println!("deliberate difference: {file}: {what} in {state:?}: {why}");
    }
    println!(
        "{}",
        failures
            .iter()
            .take(20)
            .cloned()
            .collect::<Vec<_>>()
            .join("\n")
    );
    assert!(cases > 6000, "only {cases} cases");
    assert!(surrogates < 10, "{surrogates} cases with lone surrogates");
    assert!(failures.is_empty(), "{} differences", failures.len());
}

struct Case {
    input: String,
    states: Vec<Content>,
    last_start_tag: String,
    expected: Vec<Token>,
}

impl Case {
    /// `None` if it cannot be written in UTF-8.
    fn of(test: &Value) -> Option<Case> {
        let escaped = test["doubleEscaped"].as_bool().unwrap_or(false);
        let text = |value: &Value| unescape(value.as_str().unwrap(), escaped);
        let mut expected = Vec::new();
        for token in test["output"].as_array().unwrap() {
            expected.push(match token[0].as_str().unwrap() {
                "StartTag" => {
                    let mut attributes = Vec::new();
                    for (name, value) in token[2].as_object().unwrap() {
                        attributes.push((unescape(name, escaped)?, text(value)?));
                    }
                    attributes.sort();
                    let self_closing = token.get(3).is_some();
                    Token::Start {
                        name: text(&token[1])?,
                        attributes,
                        self_closing,
                    }
                }
                "EndTag" => Token::End(text(&token[1])?),
                "Character" => Token::Text(text(&token[1])?.replace('\0', "\u{fffd}")),
                _ => Token::Skipped,
            });
        }
        let states = test.get("initialStates").and_then(Value::as_array);
        let states = states.map_or(vec![Content::Data], |states| {
            states
                .iter()
                .map(|state| content(state.as_str().unwrap()))
                .collect()
        });
        let last = test
            .get("lastStartTag")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let expected = without_skipped(expected);
        Some(Case {
            input: text(&test["input"])?,
            states,
            last_start_tag: last.into(),
            expected,
        })
    }

    fn run(&self, state: Content, chunk: usize) -> Vec<Token> {
        let name = self.last_start_tag.as_bytes();
        let mut tokenizer = Tokenizer::starting_in(state, name, 1 << 16);
        let mut recorder = Recorder::default();
        for piece in self.input.as_bytes().chunks(chunk) {
            tokenizer.feed(piece, &mut recorder);
        }
        tokenizer.finish(&mut recorder);
        recorder.end_text();
        without_skipped(recorder.tokens)
    }
}

#[derive(Default)]
struct Recorder {
    tokens: Vec<Token>,
    text: Vec<u8>,
    content: Option<Content>,
}

impl Recorder {
    fn end_text(&mut self) {
        let raw = String::from_utf8(std::mem::take(&mut self.text)).unwrap();
        if raw.is_empty() {
            return;
        }
        self.tokens.push(Token::Text(match self.content.take() {
            Some(Content::Data | Content::Rcdata) => decoded(&raw, Place::Text),
            _ => raw
                .replace("\r\n", "\n")
                .replace('\r', "\n")
                .replace('\0', "\u{fffd}"),
        }));
    }
}

impl TokenSink for Recorder {
    fn start_tag(&mut self, _tag: Tag, tag: &mut Attributes<'_>) -> Content {
        let mut attributes: Vec<(String, String)> = Vec::new();
        let ending = tag.read(|name, value| {
            let name = lower(name);
            if attributes.iter().all(|(known, _)| *known != name) {
                let value = std::str::from_utf8(value).unwrap();
                attributes.push((name, decoded(value, Place::Attribute)));
            }
        });
        if let Ending::Closed { self_closing } = ending {
            self.end_text();
            attributes.sort();
            self.tokens.push(Token::Start {
                name: lower(tag.tag_name()),
                attributes,
                self_closing,
            });
        }
        Content::Data
    }

    fn end_tag(&mut self, _tag: Tag, name: &[u8]) {
        self.end_text();
        self.tokens.push(Token::End(lower(name)));
    }

    fn text(&mut self, bytes: &[u8], content: Content) {
        self.text.extend_from_slice(bytes);
        self.content = Some(content);
    }

    fn skipped(&mut self) {
        self.end_text();
        self.tokens.push(Token::Skipped);
    }
}

/// Leaves out what is skipped and joins the text around it: how text is cut up is no matter.
fn without_skipped(tokens: Vec<Token>) -> Vec<Token> {
    let mut kept: Vec<Token> = Vec::new();
    for token in tokens {
        match (kept.last_mut(), token) {
            (_, Token::Skipped) => {}
            (Some(Token::Text(before)), Token::Text(text)) => before.push_str(&text),
            (_, token) => kept.push(token),
        }
    }
    kept
}

fn decoded(text: &str, place: Place) -> String {
    let mut out = String::new();
    decode_references(text, place, &mut out);
    out
}

fn lower(name: &[u8]) -> String {
    std::str::from_utf8(name)
        .unwrap()
        .to_ascii_lowercase()
        .replace('\0', "\u{fffd}")
}

fn content(state: &str) -> Content {
    match state {
        "Data state" => Content::Data,
        "PLAINTEXT state" => Content::Plaintext,
        "RCDATA state" => Content::Rcdata,
        "RAWTEXT state" => Content::Rawtext,
        "Script data state" => Content::Script,
        "CDATA section state" => Content::Cdata,
        other => panic!("unknown initial state {other}"),
    }
}

/// Undoes the second escaping (`\uHHHH`) that some cases have.
fn unescape(text: &str, escaped: bool) -> Option<String> {
    if !escaped {
        return Some(text.to_owned());
    }
    let mut units = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("\\u") {
        units.extend(rest[..at].encode_utf16());
        units.push(u16::from_str_radix(&rest[at + 2..at + 6], 16).unwrap());
        rest = &rest[at + 6..];
    }
    units.extend(rest.encode_utf16());
    String::from_utf16(&units).ok()
}
