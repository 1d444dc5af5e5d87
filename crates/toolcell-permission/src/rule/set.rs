//! Rules of all sources, and the few of them that one call has to look at.

use super::{Rule, RuleError, RuleSource, RuleSpec};
use crate::mode::Behavior;
use std::collections::HashMap;
use std::iter::Peekable;
use toolcell_model::UnixMillis;

/// Rules of all sources. Neither their order nor repetition has a meaning.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RuleSet {
    /// Sorted as rules are reported, each once.
    rules: Vec<Rule>,
    allow: Index,
    ask: Index,
    deny: Index,
}

/// The places of one behaviour's rules.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Index {
    by_tool: HashMap<String, Places>,
    /// Whose tool is a pattern.
    patterns: Places,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Places {
    places: Vec<usize>,
    has_content: bool,
}

impl Places {
    fn add(&mut self, place: usize, rule: &Rule) {
        self.places.push(place);
        self.has_content |= rule.content().is_some();
    }
}

impl RuleSet {
    /// Reads the three lists of one source.
    ///
    /// # Errors
    /// The first [`RuleError`].
    pub fn parse(
        source: RuleSource,
        allow: &[RuleSpec],
        ask: &[RuleSpec],
        deny: &[RuleSpec],
    ) -> Result<Self, RuleError> {
        let lists = [(Behavior::Allow, allow), (Behavior::Ask, ask), (Behavior::Deny, deny)];
        lists
            .into_iter()
            .flat_map(|(behavior, specs)| specs.iter().map(move |spec| (behavior, spec)))
            .map(|(behavior, spec)| Rule::from_spec(behavior, source, spec))
            .collect()
    }

    /// Every rule, in the order in which they are reported.
    pub fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter()
    }

    /// The rules of this behaviour that are about the tool and not expired, in the order in which they are reported.
    /// What they say of a call depends on their content. Without a `now` nothing is expired.
    pub fn candidates<'a>(
        &'a self,
        behavior: Behavior,
        tool: &str,
        now: Option<UnixMillis>,
    ) -> impl Iterator<Item = &'a Rule> {
        let index = self.index(behavior);
        let exact = index.by_tool.get(tool).map_or(&[][..], |named| &named.places);
        Merged { exact: exact.iter().peekable(), patterns: index.patterns.places.iter().peekable() }
            .filter_map(|place| self.rules.get(*place))
            .filter(move |rule| rule.matches_tool(tool) && !rule.is_expired(now))
    }

    /// Whether a rule with content is about the tool: a deny or ask rule, or, unless `strict`, an allow rule. An expired
    /// one counts.
    #[must_use]
    pub fn has_content(&self, strict: bool, tool: &str) -> bool {
        let behaviors: &[Behavior] = if strict { &[Behavior::Deny, Behavior::Ask] } else { &[Behavior::Allow] };
        behaviors.iter().any(|behavior| {
            let index = self.index(*behavior);
            index.by_tool.get(tool).is_some_and(|named| named.has_content)
                || index.patterns.has_content
                    && self.candidates(*behavior, tool, None).any(|rule| rule.content().is_some())
        })
    }

    fn index(&self, behavior: Behavior) -> &Index {
        match behavior {
            Behavior::Allow => &self.allow,
            Behavior::Ask => &self.ask,
            Behavior::Deny => &self.deny,
        }
    }
}

/// Two sorted lists as one.
struct Merged<I: Iterator<Item = T>, T> {
    exact: Peekable<I>,
    patterns: Peekable<I>,
}

impl<I: Iterator<Item = T>, T: Ord> Iterator for Merged<I, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        match (self.exact.peek(), self.patterns.peek()) {
            (Some(exact), Some(pattern)) if pattern < exact => self.patterns.next(),
            (Some(_), _) => self.exact.next(),
            (None, _) => self.patterns.next(),
        }
    }
}

impl FromIterator<Rule> for RuleSet {
    fn from_iter<I: IntoIterator<Item = Rule>>(rules: I) -> Self {
        let mut rules: Vec<Rule> = rules.into_iter().collect();
        rules.sort_by(|a, b| a.order().cmp(&b.order()));
        rules.dedup();
        let [mut allow, mut ask, mut deny] = <[Index; 3]>::default();
        for (place, rule) in rules.iter().enumerate() {
            let index = match rule.behavior() {
                Behavior::Allow => &mut allow,
                Behavior::Ask => &mut ask,
                Behavior::Deny => &mut deny,
            };
            match rule.exact_tool() {
                Some(tool) => index.by_tool.entry(tool.to_owned()).or_default().add(place, rule),
                None => index.patterns.add(place, rule),
            }
        }
        Self { rules, allow, ask, deny }
    }
}

impl Extend<Rule> for RuleSet {
    fn extend<I: IntoIterator<Item = Rule>>(&mut self, more: I) {
        *self = std::mem::take(&mut self.rules).into_iter().chain(more).collect();
    }
}

impl IntoIterator for RuleSet {
    type Item = Rule;
    type IntoIter = std::vec::IntoIter<Rule>;

    fn into_iter(self) -> Self::IntoIter {
        self.rules.into_iter()
    }
}
