//! Include and exclude rules of `[[host]]` blocks, which take the place of the crawl's own on the hosts that a block
//! matches.

use regex::RegexSet;

use super::{ScopeError, Sites, pattern_set};
use crate::settings::HostSettings;

/// The blocks that have rules, in their order. Mostly there are none.
#[derive(Debug, Clone, Default)]
pub(super) struct HostRules {
    blocks: Vec<Rules>,
}

#[derive(Debug, Clone)]
struct Rules {
    /// `None`: every host.
    hosts: Option<Sites>,
    include: Option<Option<RegexSet>>,
    exclude: Option<Option<RegexSet>>,
}

/// What must match, and what may not.
type Patterns<'a> = (Option<&'a RegexSet>, Option<&'a RegexSet>);

impl HostRules {
    pub(super) fn new(blocks: &[HostSettings]) -> Result<Self, ScopeError> {
        let with_rules = blocks
            .iter()
            .filter(|block| block.include.is_some() || block.exclude.is_some());
        let compile = |setting, texts: &Option<Vec<String>>| {
            let texts = texts.as_deref();
            texts.map(|texts| pattern_set(setting, texts)).transpose()
        };
        let rules = |block: &HostSettings| {
            Ok(Rules {
                hosts: match block.pattern.as_str() {
                    "*" => None,
                    _ => Sites::new("host.match", std::slice::from_ref(&block.pattern))?,
                },
                include: compile("host.include", &block.include)?,
                exclude: compile("host.exclude", &block.exclude)?,
            })
        };
        Ok(Self {
            blocks: with_rules.map(rules).collect::<Result<_, _>>()?,
        })
    }

    /// The rules that hold for `host`: each list is that of the first block that has it, or the crawl's own.
    pub(super) fn patterns<'a>(
        &'a self,
        host: &str,
        (include, exclude): (&'a Option<RegexSet>, &'a Option<RegexSet>),
    ) -> Patterns<'a> {
        if self.blocks.is_empty() {
            return (include.as_ref(), exclude.as_ref());
        }
        let blocks = || {
            let blocks = self.blocks.iter();
            blocks.filter(|block| block.hosts.as_ref().is_none_or(|hosts| hosts.hold(host)))
        };
        let own = blocks().find_map(|block| block.include.as_ref());
        let own_not = blocks().find_map(|block| block.exclude.as_ref());
        (
            own.unwrap_or(include).as_ref(),
            own_not.unwrap_or(exclude).as_ref(),
        )
    }
}
