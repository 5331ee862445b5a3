//! What a person may have meant who misspelt a name.

/// The name that is most like `wrong`, unless none is like it.
pub(super) fn nearest<T: AsRef<str>>(wrong: &str, names: impl Iterator<Item = T>) -> Option<T> {
    /// Of two names that have nothing in common about half is alike.
    const ALIKE: f64 = 0.7;
    names
        .map(|name| (alike(wrong, name.as_ref()), name))
        .filter(|(score, _)| *score > ALIKE)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, name)| name)
}

/// From 0 to 1. Letters that changed places count as one mistake; a name that is only begun (`delay` for `delay_ms`) is
/// close to it.
fn alike(wrong: &str, name: &str) -> f64 {
    let wrong = wrong.to_ascii_lowercase().replace('-', "_");
    let begun = if name.starts_with(&wrong) { 0.5 } else { 0.0 };
    let score = strsim::normalized_damerau_levenshtein(&wrong, name);
    score.max(begun + score / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_names_find_the_right_one_and_strange_ones_none() {
        const NAMES: [&str; 5] = [
            "politeness",
            "limits",
            "delay_ms",
            "ip_delay_ms",
            "max_pages",
        ];
        for (wrong, right) in [
            ("politenes", Some("politeness")),
            ("Politness", Some("politeness")),
            ("limit", Some("limits")),
            ("delay", Some("delay_ms")),
            ("delay-ms", Some("delay_ms")),
            ("max_page", Some("max_pages")),
            ("colour", None),
            ("", None),
        ] {
            assert_eq!(nearest(wrong, NAMES.into_iter()), right, "{wrong}");
        }
    }
}
