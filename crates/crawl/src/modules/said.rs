//! What a program wrote: the document's text, or a JSON object a line.

use serde_json::{Map, Value};

use super::findings::Findings;
use super::run::Failure;
use crate::settings::ModuleOutput;

/// What a program found, in its order.
pub(super) type Said = Vec<Saying>;

/// One line of a program.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Saying {
    Fact(String, String),
    Link { href: String, nofollow: bool },
    Embed(String),
    Title(String),
    Text(String),
}

/// Reads all that a program wrote.
pub(super) fn read(output: ModuleOutput, written: Vec<u8>) -> Result<Said, Failure> {
    match output {
        ModuleOutput::Text => Ok(vec![Saying::Text(text(written))]),
        ModuleOutput::Json => {
            let lines = written.split(|&b| b == b'\n').zip(1..);
            let lines = lines.filter(|(line, _)| !line.trim_ascii().is_empty());
            lines
                .map(|(line, number)| {
                    saying(line).map_err(|why| Failure::Unreadable(format!("line {number} {why}")))
                })
                .collect()
        }
    }
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

fn saying(line: &[u8]) -> Result<Saying, String> {
    let Ok(Value::Object(mut object)) = serde_json::from_slice(line) else {
        return Err("is no JSON object".to_owned());
    };
    let saying = match object.remove("fact") {
        Some(name) => Saying::Fact(string("fact", name)?, value(&mut object)?),
        None => other(&mut object)?,
    };
    match object.keys().next() {
        Some(more) => Err(format!("has '{more}', which is not known there")),
        None => Ok(saying),
    }
}

fn other(object: &mut Map<String, Value>) -> Result<Saying, String> {
    let mut take = |name: &str| object.remove(name).map(|value| string(name, value));
    if let Some(href) = take("link") {
        let nofollow = match object.remove("nofollow") {
            None => false,
            Some(Value::Bool(nofollow)) => nofollow,
            Some(_) => return Err("has a 'nofollow' that is not true or false".to_owned()),
        };
        return Ok(Saying::Link {
            href: href?,
            nofollow,
        });
    }
    if let Some(href) = take("embed") {
        return href.map(Saying::Embed);
    }
    if let Some(title) = take("title") {
        return title.map(Saying::Title);
    }
    match take("text") {
        Some(text) => text.map(Saying::Text),
        None => Err("has none of fact, link, embed, title and text".to_owned()),
    }
}

fn value(object: &mut Map<String, Value>) -> Result<String, String> {
    match object.remove("value") {
        Some(Value::String(text)) => Ok(text),
        Some(Value::Number(number)) => Ok(number.to_string()),
        Some(Value::Bool(flag)) => Ok(flag.to_string()),
        Some(_) => Err("has a value that is no text, number, true or false".to_owned()),
        None => Err("has a fact without a value".to_owned()),
    }
}

fn string(name: &str, value: Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text),
        _ => Err(format!("has a '{name}' that is no text")),
    }
}

/// Passes on what a program said.
pub(super) fn tell(said: Said, findings: &mut Findings<'_>) {
    for saying in said {
        match saying {
            Saying::Fact(name, value) => findings.fact(&name, value),
            Saying::Link { href, nofollow } if nofollow => findings.nofollow_link(&href),
            Saying::Link { href, .. } => findings.link(&href),
            Saying::Embed(href) => findings.embed(&href),
            Saying::Title(title) => findings.title(&title),
            Saying::Text(text) => findings.text(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_one_by_one() {
        let written = b"{\"fact\": \"pages\", \"value\": 12}\n\n {\"link\": \"/a\"}\r\n{\"link\":\"b\",\"nofollow\":true}\n{\"embed\":\"c.png\"}\n{\"title\":\"T\"}\n{\"text\":\"a\\nb\"}";
        let said = read(ModuleOutput::Json, written.to_vec()).expect("lines");
        let link = |href: &str, nofollow| Saying::Link {
            href: href.to_owned(),
            nofollow,
        };
        let wanted = [
            Saying::Fact("pages".to_owned(), "12".to_owned()),
            link("/a", false),
            link("b", true),
            Saying::Embed("c.png".to_owned()),
            Saying::Title("T".to_owned()),
            Saying::Text("a\nb".to_owned()),
        ];
        assert_eq!(said, wanted);
    }

    #[test]
    fn what_is_no_such_line_is_told_with_its_number() {
        for (line, why) in [
            ("pages: 12", "line 2 is no JSON object"),
            ("[1]", "line 2 is no JSON object"),
            ("{}", "line 2 has none of fact, link, embed, title and text"),
            ("{\"fact\":\"a\"}", "line 2 has a fact without a value"),
            (
                "{\"fact\":1,\"value\":1}",
                "line 2 has a 'fact' that is no text",
            ),
            (
                "{\"fact\":\"a\",\"value\":[]}",
                "line 2 has a value that is no text, number, true or false",
            ),
            (
                "{\"link\":\"a\",\"nofollow\":1}",
                "line 2 has a 'nofollow' that is not true or false",
            ),
            (
                "{\"link\":\"a\",\"rel\":\"x\"}",
                "line 2 has 'rel', which is not known there",
            ),
        ] {
            let written = format!("{{\"title\":\"T\"}}\n{line}\n");
            match read(ModuleOutput::Json, written.into_bytes()) {
                Err(Failure::Unreadable(told)) => assert_eq!(told, why),
                other => panic!("{line}: {other:?}"),
            }
        }
    }
}
