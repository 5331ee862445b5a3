//! The rules that concern us, arranged so that the deciding one is found quickly: plain prefixes by
//! binary search, the few others by trying the strongest first. Patterns come in normal form.

/// Rules as they are read, patterns end to end in one buffer.
#[derive(Default)]
pub(super) struct RuleList {
    text: Vec<u8>,
    rules: Vec<Rule>,
}

impl RuleList {
    pub(super) fn push(&mut self, allow: bool, pattern: &[u8]) {
        let start = self.text.len() as u32;
        self.text.extend_from_slice(pattern);
        self.rules.push(Rule {
            start,
            strength: (pattern.len() as u32) << 1 | u32::from(allow),
        });
    }
}

/// A rule's pattern and its rank in one: the longer pattern wins, and Allow among equals.
/// Sizes fit: a robots.txt, compact or not, has far less than 2^31 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Rule {
    start: u32,
    strength: u32,
}

impl Rule {
    fn allow(self) -> bool {
        self.strength & 1 == 1
    }

    fn pattern(self, text: &[u8]) -> &[u8] {
        let start = self.start as usize;
        &text[start..start + (self.strength >> 1) as usize]
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RuleId(Rule);

#[derive(Clone, Debug, Default)]
pub(super) struct RuleSet {
    text: Vec<u8>,
    /// Patterns that match by prefix alone, in order of their literals, one for each.
    prefixes: Vec<Prefix>,
    /// All others, strongest first, and for each the letter pairs that a path must have.
    globs: Vec<Rule>,
    glob_pairs: Vec<PairSet>,
}

#[derive(Clone, Copy, Debug)]
struct Prefix {
    rule: Rule,
    /// Length of the pattern without trailing `*`.
    literal_len: u32,
    /// The longest other prefix that this one starts with; itself if there is none.
    parent: u32,
    /// The strongest rule among this one and its ancestors.
    best: Rule,
}

impl Prefix {
    fn literal(self, text: &[u8]) -> &[u8] {
        let start = self.rule.start as usize;
        &text[start..start + self.literal_len as usize]
    }
}

impl RuleSet {
    pub(super) fn build(list: RuleList) -> RuleSet {
        let RuleList { text, rules } = list;
        let (prefixes, mut globs): (Vec<Rule>, Vec<Rule>) = rules
            .into_iter()
            .partition(|rule| is_prefix(rule.pattern(&text)));

        let mut prefixes: Vec<Prefix> = prefixes
            .into_iter()
            .map(|rule| Prefix {
                rule,
                literal_len: without_stars(rule.pattern(&text)).len() as u32,
                parent: 0,
                best: rule,
            })
            .collect();
        prefixes.sort_by(|a, b| {
            let by_literal = a.literal(&text).cmp(b.literal(&text));
            by_literal.then(b.rule.strength.cmp(&a.rule.strength))
        });
        // Of rules with the same literal only the strongest ever decides.
        prefixes.dedup_by(|later, kept| later.literal(&text) == kept.literal(&text));
        link_ancestors(&mut prefixes, &text);

        globs.sort_by(|a, b| {
            let by_strength = b.strength.cmp(&a.strength);
            by_strength.then_with(|| a.pattern(&text).cmp(b.pattern(&text)))
        });
        globs.dedup_by(|later, kept| {
            later.strength == kept.strength && later.pattern(&text) == kept.pattern(&text)
        });
        let glob_pairs = globs
            .iter()
            .map(|rule| PairSet::of_pattern(rule.pattern(&text)))
            .collect();
        RuleSet {
            text,
            prefixes,
            globs,
            glob_pairs,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.prefixes.len() + self.globs.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = RuleId> {
        let prefixes = self.prefixes.iter().map(|prefix| prefix.rule);
        prefixes.chain(self.globs.iter().copied()).map(RuleId)
    }

    pub(super) fn is_allow(&self, rule: RuleId) -> bool {
        rule.0.allow()
    }

    /// The rule as a line of a robots.txt. Normal forms are ASCII.
    pub(super) fn line(&self, rule: RuleId) -> String {
        let key = if rule.0.allow() { "Allow" } else { "Disallow" };
        let pattern = String::from_utf8_lossy(rule.0.pattern(&self.text));
        format!("{key}: {pattern}")
    }

    /// The strongest rule that matches a path in normal form.
    pub(super) fn best_match(&self, path: &[u8]) -> Option<RuleId> {
        let by_prefix = self.best_prefix(path);
        if self.globs.is_empty() {
            return by_prefix.map(RuleId);
        }
        let enough = by_prefix.map_or(0, |rule| rule.strength);
        let path_pairs = PairSet::of(path);
        for (rule, pairs) in self.globs.iter().zip(&self.glob_pairs) {
            if rule.strength <= enough {
                break;
            }
            if pairs.is_within(&path_pairs) && glob_matches(rule.pattern(&self.text), path) {
                return Some(RuleId(*rule));
            }
        }
        by_prefix.map(RuleId)
    }

    pub(super) fn stronger(&self, a: Option<RuleId>, b: Option<RuleId>) -> Option<RuleId> {
        [a, b].into_iter().flatten().max_by_key(|id| id.0.strength)
    }

    /// Every prefix of the path sorts at or before it, and is a prefix of all that sorts between: so
    /// it is the last literal not above the path, or an ancestor of that one.
    fn best_prefix(&self, path: &[u8]) -> Option<Rule> {
        let above = self
            .prefixes
            .partition_point(|prefix| prefix.literal(&self.text) <= path);
        let mut at = above.checked_sub(1)?;
        loop {
            let prefix = self.prefixes[at];
            if path.starts_with(prefix.literal(&self.text)) {
                return Some(prefix.best);
            }
            if prefix.parent as usize == at {
                return None;
            }
            at = prefix.parent as usize;
        }
    }
}

fn link_ancestors(prefixes: &mut [Prefix], text: &[u8]) {
    let mut open: Vec<usize> = Vec::new();
    for at in 0..prefixes.len() {
        let literal = prefixes[at].literal(text);
        while let Some(&top) = open.last()
            && !literal.starts_with(prefixes[top].literal(text))
        {
            open.pop();
        }
        prefixes[at].parent = open.last().map_or(at, |&top| top) as u32;
        if let Some(&top) = open.last() {
            let inherited = prefixes[top].best;
            if inherited.strength > prefixes[at].best.strength {
                prefixes[at].best = inherited;
            }
        }
        open.push(at);
    }
}

fn without_stars(pattern: &[u8]) -> &[u8] {
    let end = pattern.iter().rposition(|&b| b != b'*');
    &pattern[..end.map_or(0, |at| at + 1)]
}

fn is_prefix(pattern: &[u8]) -> bool {
    let literal = without_stars(pattern);
    !literal.ends_with(b"$") && memchr::memchr(b'*', literal).is_none()
}

/// Whether a pattern with `*` and `$` matches. Taking each stretch between stars at its first
/// occurrence is enough, so nothing is tried twice.
fn glob_matches(pattern: &[u8], path: &[u8]) -> bool {
    let (body, anchored) = match pattern.strip_suffix(b"$") {
        Some(body) => (body, true),
        None => (pattern, false),
    };
    let Some(star) = memchr::memchr(b'*', body) else {
        return if anchored {
            path == body
        } else {
            path.starts_with(body)
        };
    };
    let Some(mut rest) = path.strip_prefix(&body[..star]) else {
        return false;
    };
    let mut stretches = body[star + 1..].split(|&b| b == b'*').peekable();
    while let Some(stretch) = stretches.next() {
        if anchored && stretches.peek().is_none() {
            return rest.ends_with(stretch);
        }
        match memchr::memmem::find(rest, stretch) {
            Some(at) => rest = &rest[at + stretch.len()..],
            None => return false,
        }
    }
    true
}

/// Which pairs of neighbouring bytes occur, hashed into 256 bits: a rule whose pairs are not all in
/// the path cannot match it, and finding that out takes four instructions' worth of work.
#[derive(Clone, Copy, Debug, Default)]
struct PairSet([u64; 4]);

impl PairSet {
    fn of(bytes: &[u8]) -> PairSet {
        let mut set = PairSet::default();
        set.add(bytes);
        set
    }

    fn of_pattern(pattern: &[u8]) -> PairSet {
        let mut set = PairSet::default();
        let body = pattern.strip_suffix(b"$").unwrap_or(pattern);
        for stretch in body.split(|&b| b == b'*') {
            set.add(stretch);
        }
        set
    }

    fn add(&mut self, bytes: &[u8]) {
        for pair in bytes.windows(2) {
            let hash = u16::from_le_bytes([pair[0], pair[1]]).wrapping_mul(0x9E37) >> 8;
            self.0[usize::from(hash >> 6)] |= 1 << (hash & 63);
        }
    }

    fn is_within(&self, other: &PairSet) -> bool {
        let missing = |i: usize| self.0[i] & !other.0[i];
        missing(0) | missing(1) | missing(2) | missing(3) == 0
    }
}
