//! The picture of a drill: planned instants and tasks over the windows of its faults, as SVG.
//!
//! # Not here
//! Any judgement: it shows what the evidence has.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::evidence::{Attempt, Occasion};
use crate::judge::Done;

/// Tasks drawn; of more the first.
pub const MAX_DRAWN: usize = 5_000;
/// Of the names on the left.
const LEFT: f64 = 150.0;
const WIDTH: f64 = 1_200.0;
const LANE: f64 = 34.0;
const TOP: f64 = 56.0;

/// What is drawn.
#[derive(Debug)]
pub struct Scene<'a> {
    /// Above it.
    pub title: &'a str,
    /// The load's begin and end.
    pub load_us: (i64, i64),
    /// Planned instants.
    pub planned: &'a [Occasion],
    /// Tasks.
    pub attempts: &'a [Attempt],
    /// Faults.
    pub faults: &'a [Done],
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// Draws it.
#[must_use]
pub fn svg(scene: &Scene<'_>) -> String {
    let (from, load_end) = scene.load_us;
    let last = scene
        .attempts
        .iter()
        .map(|a| a.last_us)
        .max()
        .unwrap_or(load_end);
    let to = last.max(load_end).max(from + 1);
    #[expect(clippy::cast_precision_loss, reason = "a place in a picture")]
    let x = |us: i64| LEFT + (us - from) as f64 / (to - from) as f64 * (WIDTH - LEFT - 20.0);
    let mut lanes: BTreeMap<(&str, u32), usize> = BTreeMap::new();
    for occasion in scene
        .planned
        .iter()
        .chain(scene.attempts.iter().map(|a| &a.occasion))
    {
        lanes.entry((&occasion.job, occasion.shard)).or_default();
    }
    for (place, lane) in lanes.values_mut().enumerate() {
        *lane = place;
    }
    #[expect(clippy::cast_precision_loss, reason = "a place in a picture")]
    let y = |o: &Occasion| TOP + lanes[&(o.job.as_str(), o.shard)] as f64 * LANE;
    #[expect(clippy::cast_precision_loss, reason = "a place in a picture")]
    let height = TOP + lanes.len() as f64 * LANE + 40.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>\n\
         <text x=\"10\" y=\"20\" font-size=\"14\">{}</text>\n",
        escaped(scene.title)
    );
    draw_faults(&mut svg, scene, &x, height);
    for ((job, shard), lane) in &lanes {
        #[expect(clippy::cast_precision_loss, reason = "a place in a picture")]
        let at = TOP + *lane as f64 * LANE + 18.0;
        let _ = writeln!(
            svg,
            "<text x=\"10\" y=\"{at:.1}\">{} {shard}</text>",
            escaped(job)
        );
    }
    for occasion in scene.planned.iter().take(MAX_DRAWN) {
        let (at, top) = (x(occasion.planned_us), y(occasion));
        let _ = writeln!(
            svg,
            "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{top:.1}\" y2=\"{:.1}\" stroke=\"#333333\"/>",
            top + 8.0
        );
    }
    for attempt in scene.attempts.iter().take(MAX_DRAWN) {
        draw_attempt(&mut svg, attempt, &x, y(&attempt.occasion));
    }
    draw_axis(&mut svg, (from, to), &x, height);
    svg.push_str("</svg>\n");
    svg
}

fn draw_faults(svg: &mut String, scene: &Scene<'_>, x: &impl Fn(i64) -> f64, height: f64) {
    for fault in scene.faults {
        let (from, to) = (x(fault.at_us), x(fault.healed_us));
        let what = serde_json::to_value(fault.act).unwrap_or_default();
        let what = what["do"].as_str().unwrap_or("fault").to_owned();
        let _ = writeln!(
            svg,
            "<rect x=\"{from:.1}\" y=\"30\" width=\"{:.1}\" height=\"{:.1}\" fill=\"#f4c7c3\" \
             fill-opacity=\"0.6\"/><text x=\"{from:.1}\" y=\"44\" fill=\"#8c1d18\">{} {}</text>",
            (to - from).max(1.0),
            height - 60.0,
            escaped(&what),
            escaped(&fault.victim)
        );
    }
}

fn draw_attempt(svg: &mut String, attempt: &Attempt, x: &impl Fn(i64) -> f64, top: f64) {
    let (colour, what) = match (attempt.refused, attempt.ended_us) {
        (true, _) => ("#8e24aa", "refused by the fence"),
        (false, Some(_)) => ("#2e7d32", "done"),
        (false, None) => ("#d84315", "cut short"),
    };
    let (from, to) = (x(attempt.began_us), x(attempt.last_us));
    let _ = writeln!(
        svg,
        "<rect x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"9\" fill=\"{colour}\" \
         fill-opacity=\"0.7\"><title>{} token {}: {what}</title></rect>",
        top + 12.0,
        (to - from).max(1.5),
        escaped(&attempt.worker),
        attempt.token
    );
}

fn draw_axis(svg: &mut String, (from, to): (i64, i64), x: &impl Fn(i64) -> f64, height: f64) {
    let seconds = (to - from) / 1_000_000;
    let step = [1, 2, 5, 10, 30, 60, 300, 1_800, 3_600];
    let step = step
        .into_iter()
        .find(|s| seconds / s <= 24)
        .unwrap_or(7_200);
    for second in (0..=seconds).step_by(usize::try_from(step).unwrap_or(1)) {
        let at = x(from + second * 1_000_000);
        let _ = writeln!(
            svg,
            "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{:.1}\" stroke=\"#dddddd\"/>\
             <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{second} s</text>",
            height - 30.0,
            height - 14.0
        );
    }
}

#[cfg(test)]
mod tests;
