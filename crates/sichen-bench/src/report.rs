//! Figures: printed as JSON lines, as a table for people, and held to floors.
//!
//! # Not here
//! How they come about ([`crate::measure`]).

use std::io::Write as _;

use comfy_table::{Cell, CellAlignment, Table, presets};
use serde::Serialize;

/// What a figure counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Unit {
    /// Things a second.
    #[serde(rename = "/s")]
    PerSecond,
    /// Milliseconds.
    #[serde(rename = "ms")]
    Ms,
    /// Microseconds.
    #[serde(rename = "us")]
    Us,
    /// Mebibytes.
    MiB,
    /// How many.
    #[serde(rename = "")]
    Count,
}

impl Unit {
    fn text(self) -> &'static str {
        match self {
            Unit::PerSecond => "/s",
            Unit::Ms => "ms",
            Unit::Us => "µs",
            Unit::MiB => "MiB",
            Unit::Count => "",
        }
    }
}

/// One measured value.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// What it is.
    pub metric: String,
    /// How much.
    pub value: f64,
    /// Of what.
    pub unit: Unit,
}

impl Figure {
    /// A value.
    #[must_use]
    pub fn new(metric: &str, value: f64, unit: Unit) -> Self {
        let metric = metric.to_owned();
        Self {
            metric,
            value,
            unit,
        }
    }

    /// `n` in `us` microseconds, by the second.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    pub fn rate(metric: &str, n: u64, us: i64) -> Self {
        Self::new(metric, n as f64 * 1e6 / us.max(1) as f64, Unit::PerSecond)
    }
}

/// The value below which `share` of `values` (in microseconds) lie, in milliseconds.
#[must_use]
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a figure for people"
)]
pub fn share(values: &[i64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let last = sorted.len().saturating_sub(1);
    let at = (last as f64 * share).round() as usize;
    sorted.get(at).map_or(f64::NAN, |us| *us as f64 / 1e3)
}

/// What a figure must reach on a quiet machine.
#[derive(Clone, Copy, Debug)]
pub enum Floor {
    /// No less.
    AtLeast(f64),
    /// No more.
    AtMost(f64),
}

/// The floors. That of lateness is for instants of which each is of one run, as the harness in which peers
/// are measured has them (`delayed`); of twenty at one instant (`planned`) the half waits for others.
pub const FLOORS: &[(&str, Floor)] = &[
    ("bulk_runs", Floor::AtLeast(8_000.0)),
    ("acknowledged_256_runs", Floor::AtLeast(5_000.0)),
    ("large_run_shards", Floor::AtLeast(15_000.0)),
    ("pickup_p50", Floor::AtMost(5.0)),
    ("early_starts", Floor::AtMost(0.0)),
    ("delayed_lateness_p50", Floor::AtMost(5.0)),
    ("delayed_early_starts", Floor::AtMost(0.0)),
    ("due_early_starts", Floor::AtMost(0.0)),
    ("verify_events", Floor::AtLeast(1_000_000.0)),
    ("verify_per_million_events", Floor::AtMost(10_000.0)),
    ("memory_verify", Floor::AtMost(2_048.0)),
    ("old_start_most", Floor::AtMost(2_000.0)),
    ("old_claim_p95", Floor::AtMost(50.0)),
    ("crowd_claim_p95", Floor::AtMost(30.0)),
    ("ready_many_grants", Floor::AtLeast(15_000.0)),
    ("ready_turn_p99_ratio", Floor::AtMost(1.5)),
    ("ready_memory_ratio", Floor::AtMost(1.5)),
    ("ready_takeover", Floor::AtMost(2_000.0)),
    ("idle_statements", Floor::AtMost(2.0)),
    ("memory_server_idle", Floor::AtMost(60.0)),
    ("memory_worker_idle", Floor::AtMost(60.0)),
    ("memory_server_loaded", Floor::AtMost(60.0)),
    ("memory_worker_loaded", Floor::AtMost(60.0)),
    ("memory_server_loaded_shards", Floor::AtMost(60.0)),
    ("memory_worker_loaded_shards", Floor::AtMost(60.0)),
];

impl Figure {
    fn floor(&self) -> Option<Floor> {
        let found = FLOORS.iter().find(|(name, _)| *name == self.metric);
        found.map(|(_, floor)| *floor)
    }

    /// Whether it is below its floor; a figure without one never is.
    #[must_use]
    pub fn falls_short(&self) -> bool {
        match self.floor() {
            Some(Floor::AtLeast(least)) => self.value.is_nan() || self.value < least,
            Some(Floor::AtMost(most)) => self.value.is_nan() || self.value > most,
            None => false,
        }
    }
}

/// The figures as a table for people.
#[must_use]
pub fn table(figures: &[Figure]) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    table.set_header(["figure", "value", "", "floor", ""]);
    for figure in figures {
        let floor = match figure.floor() {
            Some(Floor::AtLeast(least)) => format!("≥ {least}"),
            Some(Floor::AtMost(most)) => format!("≤ {most}"),
            None => String::new(),
        };
        let verdict = if figure.falls_short() {
            "falls short"
        } else {
            ""
        };
        let digits = if figure.value.abs() < 100.0 { 2 } else { 0 };
        let value = format!("{:.digits$}", figure.value);
        table.add_row([
            Cell::new(&figure.metric),
            Cell::new(value).set_alignment(CellAlignment::Right),
            Cell::new(figure.unit.text()),
            Cell::new(floor),
            Cell::new(verdict),
        ]);
    }
    table.to_string()
}

/// Says something to whoever watches.
#[expect(clippy::print_stderr, reason = "a program for people")]
pub fn note(text: &str) {
    eprintln!("{text}");
}

/// Writes one JSON line.
///
/// # Errors
/// If nobody reads it.
pub fn line(value: &impl Serialize) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, value)?;
    writeln!(out)?;
    Ok(())
}
