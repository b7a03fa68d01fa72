//! From a tree to a document: every field, type and name that does not fit, each with its path.
//!
//! The document's own serde code says what fits. It stops at the first fault, so the value at fault
//! is pruned and the rest is read again, until nothing new is found. What is missing only because
//! it was pruned is not reported.
//!
//! # Not here
//! Rules beyond the shape (`sichen_core::document::check`).

use std::fmt;

use serde::de::value::{StrDeserializer, StringDeserializer};
use serde::de::{
    self, DeserializeSeed, Deserializer, EnumAccess, Expected, IntoDeserializer, MapAccess,
    SeqAccess, Unexpected, VariantAccess, Visitor,
};
use serde::{Deserialize, forward_to_deserialize_any};
use sichen_core::name::nearest;

use super::Problem;
use super::tree::{Entry, Node, Place, Step, Value, text};

/// Faults of one document; what is beyond is found when these are mended.
pub(super) const MAX_FAULTS: usize = 100;

/// The document of a tree without all that does not fit, which is told; none if what must be there
/// does not fit.
pub(super) fn document<T: for<'a> Deserialize<'a>>(root: &mut Node) -> (Option<T>, Vec<Problem>) {
    let mut problems = Vec::new();
    loop {
        let mut fault = match T::deserialize(Reader { node: root }) {
            Ok(document) => return (Some(document), problems),
            Err(fault) => fault,
        };
        fault.path.reverse();
        if let Some(problem) = problem(&fault, root) {
            problems.push(problem);
        }
        if problems.len() >= MAX_FAULTS || !prune(root, &fault.path) {
            return (None, problems);
        }
    }
}

/// Takes the value at `path` out of what is read; false if that is all of it.
fn prune(root: &mut Node, path: &[Step]) -> bool {
    if path.is_empty() {
        return false;
    }
    let mut node = root;
    for step in path {
        match node.inside_mut(step) {
            Some(inner) => node = inner,
            // The path of a fault leads to a value; if it did not, stopping is right.
            None => return false,
        }
    }
    node.pruned = true;
    true
}

/// What to tell about `fault`; nothing, if it only follows from an earlier one.
fn problem(fault: &Fault, root: &Node) -> Option<Problem> {
    let mut path = fault.path.clone();
    let place = fault.place.unwrap_or_else(|| root.place_of(&path));
    let message = match &fault.kind {
        Kind::Follows => return None,
        Kind::Unknown { name, expected } => {
            let at = path
                .split_last()
                .map_or_else(String::new, |(_, outer)| text(outer));
            let whose = if at.is_empty() {
                "a document".to_owned()
            } else {
                format!("`{at}`")
            };
            let hint = hint(name, expected);
            format!("SC1031: {whose} has no field `{name}`{hint}")
        }
        Kind::Variant { name, expected } => {
            let hint = hint(name, expected);
            format!("SC1034: `{name}` is not one of the choices here{hint}")
        }
        Kind::Missing(name) => {
            path.push(Step::Key((*name).to_owned()));
            format!("SC1032: the field `{name}` is missing")
        }
        Kind::Other(message) => format!("SC1033: {}", reworded(message, &path)),
    };
    Some(Problem::at(place, text(&path), message))
}

fn hint(name: &str, expected: &'static [&'static str]) -> String {
    let listed = || {
        let names: Vec<String> = expected.iter().map(|name| format!("`{name}`")).collect();
        names.join(", ")
    };
    match nearest(name, expected) {
        Some(near) => format!("; did you mean `{near}`? Known are {}", listed()),
        None if expected.is_empty() => String::new(),
        None => format!("; known are {}", listed()),
    }
}

/// Fields that take a length of time.
const LENGTHS: &[&str] = &[
    "every",
    "phase",
    "jitter",
    "attempt",
    "run",
    "stall",
    "activeDeadline",
    "startingDeadline",
    "fixed",
    "base",
    "max",
    "delay",
];

fn reworded(message: &str, path: &[Step]) -> String {
    if message.ends_with("untagged enum SizeSpec") {
        return "expected a number of keys such as 10000, or a length of time such as `1h`".into();
    }
    if message.ends_with("untagged enum KeySpec") {
        return "expected an integer, or an instant such as 2026-08-30T00:00:00Z".into();
    }
    if message.ends_with("untagged enum ExitCodesSpec") {
        return "expected an exit code such as 3, or a range such as \"10-19\"".into();
    }
    let length = matches!(path.last(), Some(Step::Key(key)) if LENGTHS.contains(&key.as_str()));
    if length && message.contains(", expected text") {
        let found = message.split(", expected").next().unwrap_or(message);
        return format!("{found}, expected a length of time such as `500ms`, `10s` or `1h 30m`");
    }
    message.to_owned()
}

/// What is to be written where one of `names` with its content must stand, and perhaps a number does.
fn choices(names: &[&str], number: Option<u64>) -> String {
    let listed: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    let listed = listed.join(", ");
    match (number, names.first()) {
        (Some(number), Some(first)) => {
            format!("expected one of {listed}; write `{{{first}: {number}}}` if that is meant")
        }
        (None, Some(first)) => format!("expected one of {listed} and its value: `{{{first}: …}}`"),
        (_, None) => format!("expected one of {listed}"),
    }
}

/// Why reading stopped, and where. The path is in reverse until it has reached the root.
#[derive(Debug)]
pub(super) struct Fault {
    kind: Kind,
    path: Vec<Step>,
    place: Option<Place>,
}

#[derive(Debug)]
enum Kind {
    Unknown {
        name: String,
        expected: &'static [&'static str],
    },
    Variant {
        name: String,
        expected: &'static [&'static str],
    },
    Missing(&'static str),
    Other(String),
    /// It is so only because something inside was pruned.
    Follows,
}

impl Fault {
    fn new(kind: Kind) -> Self {
        Self {
            kind,
            path: Vec::new(),
            place: None,
        }
    }

    fn within(mut self, step: Step) -> Self {
        self.path.push(step);
        self
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.kind)
    }
}

impl std::error::Error for Fault {}

impl de::Error for Fault {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::new(Kind::Other(message.to_string()))
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let expected = in_words(&expected.to_string());
        Self::custom(format!("found {}, expected {expected}", found_words(found)))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(found, expected)
    }

    fn unknown_field(name: &str, expected: &'static [&'static str]) -> Self {
        let name = name.to_owned();
        Self::new(Kind::Unknown { name, expected })
    }

    fn unknown_variant(name: &str, expected: &'static [&'static str]) -> Self {
        let name = name.to_owned();
        Self::new(Kind::Variant { name, expected })
    }

    fn missing_field(name: &'static str) -> Self {
        Self::new(Kind::Missing(name))
    }
}

fn found_words(found: Unexpected<'_>) -> String {
    match found {
        Unexpected::Unit | Unexpected::Option => "nothing".to_owned(),
        Unexpected::Bool(value) => format!("`{value}`"),
        Unexpected::Unsigned(value) => format!("the number {value}"),
        Unexpected::Signed(value) => format!("the number {value}"),
        Unexpected::Float(value) => format!("the number {value}"),
        Unexpected::Str(text) => format!("the text {:?}", super::unreadable::shortened(text)),
        Unexpected::Seq => "a list".to_owned(),
        Unexpected::Map => "fields".to_owned(),
        other => other.to_string(),
    }
}

/// What serde calls the expected, in the words of people who write documents.
fn in_words(expected: &str) -> String {
    match expected {
        "u8" | "u16" | "u32" | "u64" => "a whole number, 0 or more".to_owned(),
        "i8" | "i16" | "i32" | "i64" => "a whole number".to_owned(),
        "f32" | "f64" => "a number".to_owned(),
        "a sequence" => "a list (`- …` lines, or `[…]`)".to_owned(),
        "a string" => "text".to_owned(),
        "a map" => "fields (`name: value`)".to_owned(),
        "a boolean" => "`true` or `false`".to_owned(),
        other if other.starts_with("struct ") => "fields (`name: value`)".to_owned(),
        other => other.to_owned(),
    }
}

/// Reads one node.
#[derive(Clone, Copy)]
struct Reader<'a> {
    node: &'a Node,
}

impl<'de> Deserializer<'de> for Reader<'de> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.node.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Unsigned(value) => visitor.visit_u64(*value),
            Value::Signed(value) => visitor.visit_i64(*value),
            Value::Float(value) => visitor.visit_f64(*value),
            Value::Text(text) => visitor.visit_borrowed_str(text),
            Value::List(items) => visitor.visit_seq(Items {
                items: items.iter().enumerate(),
            }),
            Value::Map(entries) => {
                let mut fields = Fields {
                    entries: entries.iter(),
                    value: None,
                };
                visitor
                    .visit_map(&mut fields)
                    .map_err(|fault| match fault.kind {
                        // Not missing: pruned, and so reported.
                        Kind::Missing(name) if pruned(entries, name) => Fault {
                            kind: Kind::Follows,
                            ..fault
                        },
                        _ => fault,
                    })
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.node.value {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let plain = match &self.node.value {
            Value::Bool(value) => value.to_string(),
            Value::Unsigned(value) => value.to_string(),
            Value::Signed(value) => value.to_string(),
            Value::Float(value) => value.to_string(),
            Value::Null | Value::Text(_) | Value::List(_) | Value::Map(_) => {
                return self.deserialize_any(visitor);
            }
        };
        Err(de::Error::custom(format!(
            "found {plain}, expected text; put it in quotes: \"{plain}\""
        )))
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_string(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        match self.node.value {
            // Derived code would take a list as the fields in their order.
            Value::List(_) => Err(de::Error::invalid_type(Unexpected::Seq, &visitor)),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        names: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        match &self.node.value {
            Value::Text(name) => visitor.visit_enum(name.as_str().into_deserializer()),
            Value::Map(entries) => {
                let mut left = entries.iter().filter(|e| !e.node.pruned);
                match (left.next(), left.next()) {
                    (Some(entry), None) => visitor.visit_enum(Choice { entry }),
                    (None, _) if !entries.is_empty() => Err(Fault::new(Kind::Follows)),
                    (Some(_), Some(second)) => {
                        let message = format!("found a second choice; keep one of {names:?}");
                        let mut fault: Fault = de::Error::custom(message);
                        fault.place = Some(second.place);
                        Err(fault)
                    }
                    (None, _) => Err(de::Error::custom(choices(names, None))),
                }
            }
            Value::Unsigned(number) => Err(de::Error::custom(choices(names, Some(*number)))),
            _ => Err(de::Error::custom(choices(names, None))),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf unit unit_struct
        seq tuple tuple_struct map identifier ignored_any
    }
}

/// Whether `name` is there and pruned, or under a name that was meant to be this one.
fn pruned(entries: &[Entry], name: &str) -> bool {
    let mut pruned = entries.iter().filter(|e| e.node.pruned);
    pruned.any(|e| nearest(&e.key, &[name]).is_some())
}

struct Items<'a> {
    items: std::iter::Enumerate<std::slice::Iter<'a, Node>>,
}

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Fault> {
        let Some((index, node)) = self.items.find(|(_, node)| !node.pruned) else {
            return Ok(None);
        };
        let read = seed.deserialize(Reader { node });
        read.map(Some)
            .map_err(|fault| fault.within(Step::Index(index)))
    }
}

struct Fields<'a> {
    entries: std::slice::Iter<'a, Entry>,
    value: Option<&'a Entry>,
}

impl<'de> MapAccess<'de> for &mut Fields<'de> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Fault> {
        let Some(entry) = self.entries.find(|entry| !entry.node.pruned) else {
            return Ok(None);
        };
        self.value = Some(entry);
        let key: StrDeserializer<'_, Fault> = entry.key.as_str().into_deserializer();
        seed.deserialize(key).map(Some).map_err(|mut fault| {
            fault.place = Some(entry.place);
            fault.within(Step::Key(entry.key.clone()))
        })
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Fault> {
        let Some(entry) = self.value.take() else {
            return Err(de::Error::custom("a value without a key"));
        };
        let read = seed.deserialize(Reader { node: &entry.node });
        read.map_err(|fault| fault.within(Step::Key(entry.key.clone())))
    }
}

/// `name: content`, one of several choices.
struct Choice<'a> {
    entry: &'a Entry,
}

impl<'de> EnumAccess<'de> for Choice<'de> {
    type Error = Fault;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Fault> {
        let name: StringDeserializer<Fault> = self.entry.key.clone().into_deserializer();
        match seed.deserialize(name) {
            Ok(variant) => Ok((variant, self)),
            Err(mut fault) => {
                fault.place = Some(self.entry.place);
                Err(fault)
            }
        }
    }
}

impl Choice<'_> {
    fn within(&self, fault: Fault) -> Fault {
        fault.within(Step::Key(self.entry.key.clone()))
    }
}

impl<'de> VariantAccess<'de> for Choice<'de> {
    type Error = Fault;

    fn unit_variant(self) -> Result<(), Fault> {
        match self.entry.node.value {
            Value::Null => Ok(()),
            _ => Err(self.within(de::Error::custom("takes no value; write the name alone"))),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Fault> {
        let node = &self.entry.node;
        let read = seed.deserialize(Reader { node });
        read.map_err(|fault| self.within(fault))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Fault> {
        let node = &self.entry.node;
        let read = Reader { node }.deserialize_any(visitor);
        read.map_err(|fault| self.within(fault))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.tuple_variant(0, visitor)
    }
}
