//! What a worker offers beside its handlers: labels and resources.
//!
//! # Not here
//! What of it is used ([`super::Places`]).

use std::collections::BTreeMap;
use std::fmt;

use super::Terms;

/// Labels of one worker, and of one kind in a job's placement.
pub const MAX_LABELS: usize = 64;
/// Resources of one worker, and of one job's placement.
pub const MAX_RESOURCES: usize = 16;

/// Amounts by name, in thousandths. `gpu/a100` is a kind of `gpu`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Resources(BTreeMap<String, u64>);

impl Resources {
    /// These amounts; nothing of a name is the same as not naming it.
    #[must_use]
    pub fn new(amounts: impl IntoIterator<Item = (String, u64)>) -> Self {
        Self(amounts.into_iter().filter(|(_, n)| *n > 0).collect())
    }

    /// Whether there is nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Amounts by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(name, n)| (name.as_str(), *n))
    }

    /// How much there is of `name`.
    #[must_use]
    pub fn of(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    /// With what is there of each kind counted for the whole too: of `gpu/a100` also as `gpu`.
    #[must_use]
    pub fn with_kinds(&self) -> Self {
        let mut all = self.0.clone();
        for (name, n) in &self.0 {
            if let Some((whole, _)) = name.split_once('/') {
                let sum = all.entry(whole.to_owned()).or_default();
                *sum = sum.saturating_add(*n);
            }
        }
        Self(all)
    }

    /// The first thing of which here is less than `needs`; kinds before wholes.
    #[must_use]
    pub fn lacks<'a>(&self, needs: &'a Resources) -> Option<(&'a str, u64)> {
        let mut named = needs.iter().collect::<Vec<_>>().into_iter().rev();
        named.find(|(name, n)| self.of(name) < *n)
    }

    /// The first thing of which `needs` beside `used` is more than there is here.
    #[must_use]
    pub fn lacks_beside<'a>(
        &self,
        used: &Resources,
        needs: &'a Resources,
    ) -> Option<(&'a str, u64)> {
        let short = |(name, n): &(&str, u64)| self.of(name) < used.of(name).saturating_add(*n);
        needs
            .0
            .iter()
            .rev()
            .map(|(name, n)| (name.as_str(), *n))
            .find(short)
    }

    /// Adds `more`.
    pub fn add(&mut self, more: &Resources) {
        for (name, n) in &more.0 {
            let sum = self.0.entry(name.clone()).or_default();
            *sum = sum.saturating_add(*n);
        }
    }

    /// Takes `less` away.
    pub fn take(&mut self, less: &Resources) {
        for (name, n) in &less.0 {
            if let Some(left) = self.0.get_mut(name) {
                *left = left.saturating_sub(*n);
            }
        }
        self.0.retain(|_, n| *n > 0);
    }

    /// The largest part that is used of anything here, in thousandths.
    #[must_use]
    pub fn load(&self, used: &Resources) -> u64 {
        let part =
            |(name, total): (&String, &u64)| used.of(name).saturating_mul(1_000) / (*total).max(1);
        self.0.iter().map(part).max().unwrap_or(0)
    }
}

/// An amount as people write it.
impl fmt::Display for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (name, amount)) in self.iter().enumerate() {
            let comma = if n == 0 { "" } else { ", " };
            write!(f, "{comma}{name} {}", quantity::text(name, amount))?;
        }
        Ok(())
    }
}

/// Amounts as text: `2`, `0.5`, `500m`, `4Gi`, `100M`.
pub mod quantity {
    const UNITS: [(&str, u64); 10] = [
        ("Ki", 1 << 10),
        ("Mi", 1 << 20),
        ("Gi", 1 << 30),
        ("Ti", 1 << 40),
        ("k", 1_000),
        ("K", 1_000),
        ("M", 1_000_000),
        ("G", 1_000_000_000),
        ("T", 1_000_000_000_000),
        ("m", 0),
    ];
    /// The largest amount, in thousandths.
    pub const MAX: u64 = 1 << 60;

    /// The amount in thousandths; `None` if the text is none, is less than a thousandth, or too large.
    #[must_use]
    pub fn parse(text: &str) -> Option<u64> {
        let text = text.trim();
        let unit = UNITS.iter().find(|(unit, _)| text.ends_with(unit));
        let (number, factor) = match unit {
            Some((unit, factor)) => (text.strip_suffix(unit)?, *factor),
            None => (text, 1),
        };
        let (whole, part) = number.split_once('.').unwrap_or((number, ""));
        let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
        if whole.is_empty() || !digits(whole) || !digits(part) || part.len() > 3 {
            return None;
        }
        let whole: u64 = whole.parse().ok()?;
        let part: u64 = format!("{part:0<3}").parse().ok()?;
        let thousandths = whole.checked_mul(1_000)?.checked_add(part)?;
        let amount = match factor {
            0 => thousandths / 1_000,
            factor => thousandths.checked_mul(factor)?,
        };
        (1..=MAX).contains(&amount).then_some(amount)
    }

    /// An amount of `name` as people write it; exact.
    #[must_use]
    pub fn text(name: &str, amount: u64) -> String {
        if name == "memory" {
            let mut sizes = UNITS[..4].iter().rev();
            let fits =
                |(_, size): &&(&str, u64)| amount >= size * 1_000 && amount.is_multiple_of(*size);
            if let Some((unit, size)) = sizes.find(fits) {
                return decimal(amount / size) + unit;
            }
        }
        decimal(amount)
    }

    /// Thousandths as a decimal number.
    fn decimal(amount: u64) -> String {
        let (whole, part) = (amount / 1_000, format!("{:03}", amount % 1_000));
        match part.trim_end_matches('0') {
            "" => whole.to_string(),
            part => format!("{whole}.{part}"),
        }
    }
}

/// What a worker offers beside its handlers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// What may be given away of its machine, as it says.
    pub resources: Resources,
    /// The same with the kinds of each thing counted for the whole.
    pub(super) total: Resources,
}

impl Offer {
    /// Of these labels and resources.
    #[must_use]
    pub fn new(labels: BTreeMap<String, String>, resources: Resources) -> Self {
        Self {
            total: resources.with_kinds(),
            labels,
            resources,
        }
    }

    /// Whether who offers this and these handlers may ever run such a shard, free or not.
    #[must_use]
    pub fn suits(&self, handlers: &[String], handler: &str, terms: Option<&Terms>) -> bool {
        handlers.iter().any(|offered| offered == handler)
            && terms.is_none_or(|terms| {
                terms.is_met_by(&self.labels) && self.total.lacks(&terms.needs).is_none()
            })
    }

    /// What there is in all, kinds counted for the whole.
    #[must_use]
    pub fn total(&self) -> &Resources {
        &self.total
    }

    /// As a column keeps it; `None` if there is nothing.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        if self.labels.is_empty() && self.resources.is_empty() {
            return None;
        }
        let resources: BTreeMap<&str, u64> = self.resources.iter().collect();
        let told = serde_json::json!({ "labels": self.labels, "resources": resources });
        Some(told.to_string())
    }

    /// Reads what [`Offer::text`] wrote.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut told: serde_json::Value = serde_json::from_str(text).ok()?;
        let labels = serde_json::from_value(told["labels"].take()).ok()?;
        let resources: BTreeMap<String, u64> =
            serde_json::from_value(told["resources"].take()).ok()?;
        Some(Self::new(labels, Resources::new(resources)))
    }
}
