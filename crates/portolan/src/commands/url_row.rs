//! What `portolan urls` tells of a URL, and its columns in the order in which every format has them.

use std::collections::BTreeMap;

use portolan_model::Visit;
use portolan_registry::UrlRecord;
use serde::{Deserialize, Serialize};

use super::inspect;

/// A URL of a crawl. What is not known is `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct UrlRow {
    pub(crate) url: String,
    pub(crate) state: String,
    pub(crate) reason: Option<String>,
    pub(crate) status: Option<u16>,
    pub(crate) mime: Option<String>,
    pub(crate) depth: u16,
    pub(crate) title: Option<String>,
    pub(crate) charset: Option<String>,
    pub(crate) found_as: String,
    pub(crate) back_links: u32,
    pub(crate) attempts: u8,
    pub(crate) at_ms: Option<u64>,
    pub(crate) wire_bytes: Option<u64>,
    pub(crate) body_bytes: Option<u64>,
    pub(crate) duplicate: Option<bool>,
    /// Whose URL it is, where the crawl is divided.
    pub(crate) partition: u16,
    /// The session of the last visit, and what sessions have found so far.
    pub(crate) session: Option<u32>,
    pub(crate) checks: Option<u32>,
    pub(crate) changes: Option<u32>,
    pub(crate) changed_ms: Option<u64>,
    pub(crate) gone_ms: Option<u64>,
    /// What modules said, by `MODULE.NAME`.
    pub(crate) facts: Option<BTreeMap<String, String>>,
}

/// A cell of a table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell<'a> {
    Text(&'a str),
    /// A JSON object, as text where there are no objects.
    Facts(&'a BTreeMap<String, String>),
    Number(u64),
    Flag(bool),
    Nothing,
}

/// Kinds of columns: a text, a number or a flag; optional where a cell may be empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Number,
    Flag,
}

/// Name, kind and whether there may be nothing.
pub(crate) const COLUMNS: [(&str, Kind, bool); 22] = [
    ("url", Kind::Text, false),
    ("state", Kind::Text, false),
    ("reason", Kind::Text, true),
    ("status", Kind::Number, true),
    ("mime", Kind::Text, true),
    ("depth", Kind::Number, false),
    ("title", Kind::Text, true),
    ("charset", Kind::Text, true),
    ("found_as", Kind::Text, false),
    ("back_links", Kind::Number, false),
    ("attempts", Kind::Number, false),
    ("at_ms", Kind::Number, true),
    ("wire_bytes", Kind::Number, true),
    ("body_bytes", Kind::Number, true),
    ("duplicate", Kind::Flag, true),
    ("partition", Kind::Number, false),
    ("session", Kind::Number, true),
    ("checks", Kind::Number, true),
    ("changes", Kind::Number, true),
    ("changed_ms", Kind::Number, true),
    ("gone_ms", Kind::Number, true),
    ("facts", Kind::Text, true),
];

/// Facts where a text is wanted.
pub(crate) fn facts_text(facts: &BTreeMap<String, String>) -> String {
    serde_json::json!(facts).to_string()
}

impl UrlRow {
    pub(crate) fn of(record: UrlRecord, visit: Option<Visit>) -> Self {
        let text = |text: String| Some(text).filter(|text| !text.is_empty());
        let mut row = Self {
            state: inspect::state_name(&record).to_owned(),
            reason: record.reason.map(|reason| reason.name().to_owned()),
            depth: record.depth,
            found_as: record.kind.name().to_owned(),
            back_links: record.count,
            attempts: record.attempts,
            partition: record.partition,
            url: record.url,
            ..Self::default()
        };
        if let Some(visit) = visit {
            row.status = Some(visit.status).filter(|&status| status != 0);
            row.at_ms = Some(visit.at_ms);
            row.wire_bytes = Some(visit.wire_bytes);
            row.body_bytes = Some(visit.body_bytes);
            row.duplicate = Some(visit.duplicate_of.is_some());
            let history = visit.history;
            row.session = Some(history.session);
            row.checks = Some(history.checks);
            row.changes = Some(history.changes);
            row.changed_ms = Some(history.changed_ms).filter(|&ms| ms > 0);
            row.gone_ms = Some(history.gone_ms).filter(|&ms| ms > 0);
            let facts = visit.facts.into_iter();
            let facts: BTreeMap<_, _> = facts.map(|fact| (fact.name, fact.value)).collect();
            row.facts = Some(facts).filter(|facts| !facts.is_empty());
            row.mime = text(visit.mime);
            row.title = text(visit.title);
            row.charset = text(visit.charset);
        }
        row
    }

    /// One cell for each of `COLUMNS`.
    pub(crate) fn cells(&self) -> [Cell<'_>; COLUMNS.len()] {
        fn text(text: &Option<String>) -> Cell<'_> {
            text.as_deref().map_or(Cell::Nothing, Cell::Text)
        }
        fn number<'a>(number: Option<impl Into<u64>>) -> Cell<'a> {
            number.map_or(Cell::Nothing, |number| Cell::Number(number.into()))
        }
        [
            Cell::Text(&self.url),
            Cell::Text(&self.state),
            text(&self.reason),
            number(self.status),
            text(&self.mime),
            number(Some(self.depth)),
            text(&self.title),
            text(&self.charset),
            Cell::Text(&self.found_as),
            number(Some(self.back_links)),
            number(Some(self.attempts)),
            number(self.at_ms),
            number(self.wire_bytes),
            number(self.body_bytes),
            self.duplicate.map_or(Cell::Nothing, Cell::Flag),
            number(Some(self.partition)),
            number(self.session),
            number(self.checks),
            number(self.changes),
            number(self.changed_ms),
            number(self.gone_ms),
            self.facts.as_ref().map_or(Cell::Nothing, Cell::Facts),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// JSON and the table formats tell the same, under the same names.
    #[test]
    fn columns_are_the_fields() {
        let row = UrlRow {
            url: "http://a.test/".to_owned(),
            status: Some(200),
            duplicate: Some(true),
            facts: Some([("pdf.pages".to_owned(), "3".to_owned())].into()),
            ..UrlRow::default()
        };
        let json = serde_json::to_value(&row).expect("JSON");
        let fields = json.as_object().expect("an object");
        assert_eq!(fields.len(), COLUMNS.len());
        for ((name, kind, optional), cell) in COLUMNS.iter().zip(row.cells()) {
            let (value, fits) = match cell {
                Cell::Text(text) => (text.into(), *kind == Kind::Text),
                Cell::Facts(facts) => (serde_json::json!(facts), *kind == Kind::Text),
                Cell::Number(number) => (number.into(), *kind == Kind::Number),
                Cell::Flag(flag) => (flag.into(), *kind == Kind::Flag),
                Cell::Nothing => (serde_json::Value::Null, *optional),
            };
            assert!(fits, "{name}");
            assert_eq!(fields.get(*name), Some(&value), "{name}");
        }
    }
}
