//! A settings file as a person wrote it: what it says is laid over other settings, and what it gets wrong is told with its line
//! and column, in the file's own words.

use std::ops::Range;

use serde::Deserialize;
use toml::de::{DeTable, DeValue};

use super::nearest::nearest;
use super::{Settings, SettingsError};

/// The settings in `base`, which are whole and right, with what `text` says instead. The file's mistakes have their places.
pub(super) fn overlaid(base: &str, text: &str) -> Result<Settings, SettingsError> {
    let parsed = |text| DeTable::parse(text).map_err(|e| SettingsError::plain(e.message()));
    let mut merged = parsed(base)?;
    let wanted = DeTable::parse(text).map_err(|e| {
        let error = SettingsError::plain(&syntax(e.message()));
        error.at(text, e.span())
    })?;
    let mut file = File {
        text,
        names: names(merged.get_ref(), ""),
        written: Vec::new(),
    };
    file.lay_over(merged.get_mut(), wanted.into_inner(), "")?;
    // What is wrong now can only be in what the file wrote, for the rest was settings before.
    let settings = Settings::deserialize(toml::Deserializer::from(merged))
        .map_err(|e| file.misfit(e.message(), e.span()))?;
    settings.check().map_err(|e| file.placed(e))?;
    Ok(settings)
}

struct File<'a> {
    text: &'a str,
    /// Every setting that there is.
    names: Vec<String>,
    /// What the file sets: the setting's name, and where that is written, from its key to the end of its value.
    written: Vec<(String, Range<usize>)>,
}

impl<'a> File<'a> {
    fn lay_over(
        &mut self,
        base: &mut DeTable<'a>,
        over: DeTable<'a>,
        path: &str,
    ) -> Result<(), SettingsError> {
        for (key, mut value) in over {
            let name = joined(path, key.get_ref());
            let Some(slot) = base.get_mut(key.get_ref().as_ref()) else {
                return Err(self.unknown(&name).at(self.text, Some(key.span())));
            };
            match (slot.get_mut(), value.get_mut()) {
                (DeValue::Table(inner), DeValue::Table(over)) => {
                    self.lay_over(inner, std::mem::take(over), &name)?;
                    continue;
                }
                // 2 is as good as 2.0.
                (DeValue::Float(_), DeValue::Integer(_)) => {}
                (is, wanted) if is.same_type(wanted) => {}
                (is, wanted) => {
                    let what = format!("must be {}, not {}", kind(is), kind(wanted));
                    return Err(SettingsError::of(&name, &what).at(self.text, Some(value.span())));
                }
            }
            self.written
                .push((name, key.span().start..value.span().end));
            *slot = value;
        }
        Ok(())
    }

    fn unknown(&self, name: &str) -> SettingsError {
        let (table, leaf) = name.rsplit_once('.').unwrap_or(("", name));
        // A right name in the wrong table is told at once; else the nearest of its table, and then of all.
        let elsewhere = self.names.iter().find(|other| {
            other
                .rsplit_once('.')
                .is_some_and(|(_, known)| known == leaf)
        });
        let is_sibling = |other: &&String| match table {
            "" => !other.contains('.'),
            table => other
                .strip_prefix(table)
                .is_some_and(|rest| rest.starts_with('.')),
        };
        let known = elsewhere
            .or_else(|| nearest(name, self.names.iter().filter(is_sibling)))
            .or_else(|| nearest(name, self.names.iter()));
        let meant = match known {
            Some(known) => format!("; did you mean '{known}'?"),
            None => String::new(),
        };
        SettingsError::plain(&format!("there is no setting '{name}'{meant}"))
    }

    /// A value of the right kind that is none all the same, as serde tells it.
    fn misfit(&self, message: &str, span: Option<Range<usize>>) -> SettingsError {
        let holds = |(_, range): &&(String, Range<usize>)| {
            span.as_ref()
                .is_some_and(|span| range.contains(&span.start))
        };
        let error = match self.written.iter().find(holds) {
            Some((name, _)) => SettingsError::of(name, &said(message)),
            None => SettingsError::plain(&said(message)),
        };
        error.at(self.text, span)
    }

    /// What was found wrong with a setting, with the place where the file says so, if it does.
    fn placed(&self, error: SettingsError) -> SettingsError {
        let own = |(name, _): &&(String, Range<usize>)| error.setting.as_ref() == Some(name);
        match self.written.iter().find(own) {
            Some((_, range)) => error.at(self.text, Some(range.clone())),
            None => error,
        }
    }
}

/// Every table and setting, by its full name.
fn names(table: &DeTable<'_>, path: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (key, value) in table.iter() {
        let name = joined(path, key.get_ref());
        if let DeValue::Table(inner) = value.get_ref() {
            found.extend(names(inner, &name));
        }
        found.push(name);
    }
    found
}

fn joined(path: &str, key: &str) -> String {
    match path {
        "" => key.to_owned(),
        path => format!("{path}.{key}"),
    }
}

fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text in quotes",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list in brackets",
        DeValue::Table(_) => "a table",
    }
}

/// What the parser says, as a sentence without lines.
fn syntax(message: &str) -> String {
    let words: Vec<&str> = message.split_whitespace().collect();
    format!("this is no TOML: {}", words.join(" "))
}

/// What serde says of a value, for people who do not know our types.
fn said(message: &str) -> String {
    let message = message.lines().next().unwrap_or_default();
    if let Some(rest) = message.strip_prefix("unknown variant ") {
        let mut quoted = backticked(rest);
        let wrong = quoted.next().unwrap_or_default();
        let known: Vec<&str> = quoted.collect();
        let meant = match nearest(wrong, known.iter()) {
            Some(known) => format!("; did you mean \"{known}\"?"),
            None => String::new(),
        };
        let known: Vec<String> = known.iter().map(|name| format!("\"{name}\"")).collect();
        return format!("must be {}, not \"{wrong}\"{meant}", either(&known));
    }
    if let Some(rest) = message.strip_prefix("unknown field ") {
        let mut quoted = backticked(rest);
        let wrong = quoted.next().unwrap_or_default();
        let known: Vec<&str> = quoted.collect();
        let meant = match nearest(wrong, known.iter()) {
            Some(known) => format!("; did you mean '{known}'?"),
            None => format!("; it has {}", known.join(", ")),
        };
        return format!("has no '{wrong}'{meant}");
    }
    if let Some(rest) = message.strip_prefix("missing field ") {
        return format!("lacks '{}'", backticked(rest).next().unwrap_or_default());
    }
    let Some((is, wanted)) = message.split_once(", expected ") else {
        return format!("cannot be so: {message}");
    };
    let is = is.strip_prefix("invalid type: ").unwrap_or(is);
    let is = is.strip_prefix("invalid value: ").unwrap_or(is);
    format!("must be {}, not {}", plain_type(wanted), plain_value(is))
}

/// What stands between backticks, one after the other.
fn backticked(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

fn either(choices: &[String]) -> String {
    match choices {
        [] => "something else".to_owned(),
        [one] => one.clone(),
        [some @ .., last] => format!("{} or {last}", some.join(", ")),
    }
}

/// A type of the program, as a person would say it.
fn plain_type(wanted: &str) -> String {
    let within = |least: i64, most: i64| format!("a whole number from {least} to {most}");
    match wanted {
        "u8" => within(0, u8::MAX.into()),
        "u16" => within(0, u16::MAX.into()),
        "u32" => within(0, u32::MAX.into()),
        "u64" | "usize" => "a whole number, 0 or more".to_owned(),
        "i8" => within(i8::MIN.into(), i8::MAX.into()),
        "i16" => within(i16::MIN.into(), i16::MAX.into()),
        "i32" => within(i32::MIN.into(), i32::MAX.into()),
        "i64" | "isize" => "a whole number".to_owned(),
        "f32" | "f64" => "a number".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a string" | "string or table" => "a text in quotes".to_owned(),
        "a sequence" => "a list in brackets".to_owned(),
        "a map" => "a table".to_owned(),
        other if other.starts_with("struct ") => "a table".to_owned(),
        other if other.contains("a tuple of size 2") => "a pair".to_owned(),
        other => other.to_owned(),
    }
}

/// A value as serde shows it, as it stands in the file.
fn plain_value(is: &str) -> String {
    let kinds = ["integer ", "floating point ", "boolean ", "string "];
    match kinds.iter().find_map(|kind| is.strip_prefix(kind)) {
        Some(value) => value.replace('`', ""),
        None => match is {
            "map" => "a table".to_owned(),
            "sequence" => "a list".to_owned(),
            other => match other.strip_prefix("invalid length ") {
                Some(count) => format!("a list of {count}"),
                None => other.to_owned(),
            },
        },
    }
}
