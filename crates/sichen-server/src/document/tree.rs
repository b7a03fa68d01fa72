//! A text as a tree whose every key and value knows its place.
//!
//! # Invariants
//! - What is read is bounded: bytes, depth, nodes, documents, and what aliases stand for.
//! - Nothing is dropped: a key that is there twice is in the tree twice.
//!
//! # Not here
//! What the tree means ([`super::shape`]).

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{
    DuplicateKeyPolicy, Error, Location, MergeKeyPolicy, Options, Spanned, budget, options,
};

/// Collections inside collections.
pub(super) const MAX_DEPTH: usize = 32;
/// Keys, values and collections of one text, aliases written out.
pub(super) const MAX_NODES: usize = 250_000;
/// Documents of one text.
pub(super) const MAX_DOCUMENTS: usize = 1_000;
/// Aliases of one text.
const MAX_ALIASES: usize = 1_000;
/// Parser events that all aliases together may stand for.
const MAX_ALIASED: usize = 20_000;

/// Line and column, in characters from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub line: u64,
    pub column: u64,
}

impl Place {
    fn of(location: Location) -> Self {
        Self {
            line: location.line(),
            column: location.column(),
        }
    }
}

/// A value and where it stands.
#[derive(Debug)]
pub(super) struct Node {
    pub place: Place,
    pub value: Value,
    /// It has been reported already and is passed over.
    pub pruned: bool,
}

#[derive(Debug)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

#[derive(Debug)]
pub(super) struct Entry {
    pub key: String,
    pub place: Place,
    pub node: Node,
}

/// One step from a value to one inside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Key(String),
    Index(usize),
}

/// `spec.schedules[0].cron`.
pub(super) fn text(path: &[Step]) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            Step::Key(key) if text.is_empty() => text.push_str(key),
            Step::Key(key) => {
                text.push('.');
                text.push_str(key);
            }
            Step::Index(index) => text.push_str(&format!("[{index}]")),
        }
    }
    text
}

/// Reads what [`text`] wrote; keys with dots or brackets are not told apart.
pub(super) fn steps(text: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    for part in text.split('.').filter(|part| !part.is_empty()) {
        let (key, indexes) = part.split_once('[').unwrap_or((part, ""));
        steps.push(Step::Key(key.to_owned()));
        let indexes = indexes.split(['[', ']']);
        steps.extend(indexes.filter_map(|n| n.parse().ok()).map(Step::Index));
    }
    steps
}

impl Node {
    /// Whether the document says that it is of this kind.
    pub fn is(&self, kind: &str) -> bool {
        let found = self.inside(&Step::Key("kind".to_owned()));
        found.is_some_and(|node| matches!(&node.value, Value::Text(text) if text == kind))
    }

    /// The value one step inside.
    pub fn inside(&self, step: &Step) -> Option<&Node> {
        match (&self.value, step) {
            (Value::List(items), Step::Index(index)) => items.get(*index),
            (Value::Map(entries), Step::Key(key)) => {
                let mut found = entries.iter().filter(|e| e.key == *key);
                found.find(|e| !e.node.pruned).map(|e| &e.node)
            }
            _ => None,
        }
    }

    /// As [`Node::inside`], to be pruned.
    pub fn inside_mut(&mut self, step: &Step) -> Option<&mut Node> {
        match (&mut self.value, step) {
            (Value::List(items), Step::Index(index)) => items.get_mut(*index),
            (Value::Map(entries), Step::Key(key)) => {
                let mut found = entries.iter_mut().filter(|e| e.key == *key);
                found.find(|e| !e.node.pruned).map(|e| &mut e.node)
            }
            _ => None,
        }
    }

    /// Where the value at `path` stands, or the nearest one around it that is there.
    pub fn place_of(&self, path: &[Step]) -> Place {
        let mut node = self;
        for step in path {
            match node.inside(step) {
                Some(inner) => node = inner,
                None => break,
            }
        }
        node.place
    }

    /// Calls `see` for each key and each text, with its path and place.
    pub fn each_text(&self, path: &mut Vec<Step>, see: &mut impl FnMut(&[Step], Place, &str)) {
        match &self.value {
            Value::Text(text) => see(path, self.place, text),
            Value::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    path.push(Step::Index(index));
                    item.each_text(path, see);
                    path.pop();
                }
            }
            Value::Map(entries) => {
                for entry in entries {
                    path.push(Step::Key(entry.key.clone()));
                    see(path, entry.place, &entry.key);
                    entry.node.each_text(path, see);
                    path.pop();
                }
            }
            Value::Null
            | Value::Bool(_)
            | Value::Unsigned(_)
            | Value::Signed(_)
            | Value::Float(_) => {}
        }
    }

    /// Calls `see` for each key that its map has already.
    pub fn each_repeated(&self, path: &mut Vec<Step>, see: &mut impl FnMut(&[Step], Place, Place)) {
        match &self.value {
            Value::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    path.push(Step::Index(index));
                    item.each_repeated(path, see);
                    path.pop();
                }
            }
            Value::Map(entries) => {
                let mut seen = std::collections::BTreeMap::new();
                for entry in entries {
                    path.push(Step::Key(entry.key.clone()));
                    match seen.get(entry.key.as_str()) {
                        Some(first) => see(path, entry.place, *first),
                        None => drop(seen.insert(entry.key.as_str(), entry.place)),
                    }
                    entry.node.each_repeated(path, see);
                    path.pop();
                }
            }
            Value::Null
            | Value::Bool(_)
            | Value::Unsigned(_)
            | Value::Signed(_)
            | Value::Float(_)
            | Value::Text(_) => {}
        }
    }
}

fn limits() -> Options {
    options! {
        budget: budget! {
            max_depth: MAX_DEPTH,
            flow_nesting_limit: MAX_DEPTH,
            max_nodes: MAX_NODES,
            max_documents: MAX_DOCUMENTS,
            max_aliases: MAX_ALIASES,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: MAX_ALIASED,
            max_replay_stack_depth: MAX_DEPTH,
            max_alias_expansions_per_anchor: MAX_ALIASES,
        },
        duplicate_keys: DuplicateKeyPolicy::PassThrough,
        merge_keys: MergeKeyPolicy::Error,
        strict_booleans: true,
        leading_zero_numbers_as_strings: true,
        underscored_numbers_as_strings: true,
        reject_unsupported_tags: true,
        with_snippet: false,
    }
}

/// The documents of `text`, empty ones left out.
///
/// # Errors
/// The first thing that is no YAML, or that a limit forbids.
pub(super) fn parse(text: &str) -> Result<Vec<Node>, Box<Error>> {
    let text = blanks_for_tabs(text);
    let documents: Vec<Spanned<Raw>> =
        serde_saphyr::from_multiple_with_options(&text, limits()).map_err(Box::new)?;
    Ok(documents.into_iter().map(node).collect())
}

/// JSON may be indented by tabs, YAML may not: in a JSON text, where no string can hold a bare tab,
/// a blank says the same.
fn blanks_for_tabs(text: &str) -> std::borrow::Cow<'_, str> {
    let like_json = text.contains('\t') && text.trim_start().starts_with(['{', '[']);
    let all_json = || {
        let mut values = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
        values.all(|value| value.is_ok())
    };
    if like_json && all_json() {
        text.replace('\t', " ").into()
    } else {
        text.into()
    }
}

fn node(spanned: Spanned<Raw>) -> Node {
    Node {
        place: Place::of(spanned.referenced),
        value: spanned.value.0,
        pruned: false,
    }
}

/// A value as the parser gives it, before its place is known.
struct Raw(Value);

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = Raw;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Raw, E> {
        Ok(Raw(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Raw, E> {
        Ok(Raw(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Raw, D::Error> {
        Raw::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Raw, E> {
        Ok(Raw(Value::Bool(value)))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Raw, E> {
        Ok(Raw(Value::Unsigned(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Raw, E> {
        Ok(Raw(match u64::try_from(value) {
            Ok(value) => Value::Unsigned(value),
            Err(_) => Value::Signed(value),
        }))
    }

    fn visit_u128<E: serde::de::Error>(self, value: u128) -> Result<Raw, E> {
        Err(E::custom(format!(
            "the number {value} has more than 64 bits"
        )))
    }

    fn visit_i128<E: serde::de::Error>(self, value: i128) -> Result<Raw, E> {
        Err(E::custom(format!(
            "the number {value} has more than 64 bits"
        )))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Raw, E> {
        Ok(Raw(Value::Float(value)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Raw, E> {
        Ok(Raw(Value::Text(value.to_owned())))
    }

    fn visit_string<E>(self, value: String) -> Result<Raw, E> {
        Ok(Raw(Value::Text(value)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Raw, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element::<Spanned<Raw>>()? {
            items.push(node(item));
        }
        Ok(Raw(Value::List(items)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Raw, A::Error> {
        let mut entries = Vec::new();
        while let Some(key) = access.next_key::<Spanned<String>>()? {
            let value = access.next_value::<Spanned<Raw>>()?;
            if key.value == "<<" {
                return Err(A::Error::custom("`<<` is not read; write the fields out"));
            }
            entries.push(Entry {
                key: key.value,
                place: Place::of(key.referenced),
                node: node(value),
            });
        }
        Ok(Raw(Value::Map(entries)))
    }
}
