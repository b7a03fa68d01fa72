//! What the watcher sees while the demo runs: bars on a terminal, plain lines elsewhere.
//!
//! All of it goes to stderr; stdout is for the report.

use std::io::{IsTerminal, Write};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output::prose_beside;

/// Where progress and events are shown.
#[derive(Debug)]
pub enum Screen {
    /// Bars, with events above them.
    Bars {
        all: MultiProgress,
        run: ProgressBar,
        shards: Vec<ProgressBar>,
    },
    /// A line an event, and one each tenth of the run.
    Lines { tenth: u64 },
    /// Nothing.
    Silent,
}

impl Screen {
    /// Bars if stderr is a terminal, else lines; nothing if `quiet`.
    pub fn new(quiet: bool) -> Screen {
        if quiet {
            return Screen::Silent;
        }
        if !std::io::stderr().is_terminal() {
            return Screen::Lines { tenth: 0 };
        }
        let all = MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(10));
        Screen::Bars {
            all,
            run: ProgressBar::hidden(),
            shards: Vec::new(),
        }
    }

    /// Starts the bars of a run.
    pub fn begin(&mut self, title: &str, entries: u64, shards: &[u64]) {
        self.event(&format!(
            "{title}: {entries} entries in {} shards",
            shards.len()
        ));
        match self {
            Screen::Bars {
                all,
                run,
                shards: bars,
            } => {
                let style = |template: &str| {
                    ProgressStyle::with_template(template)
                        .unwrap_or_else(|_| ProgressStyle::default_bar())
                        .progress_chars("█▉▊▋▌▍▎▏ ")
                };
                *bars = shards
                    .iter()
                    .enumerate()
                    .map(|(no, length)| {
                        let bar = all.add(ProgressBar::new(*length));
                        bar.set_style(style("  {prefix:>9} {bar:30.cyan} {pos:>7}/{len} {msg}"));
                        bar.set_prefix(format!("shard {no}"));
                        bar
                    })
                    .collect();
                *run = all.add(ProgressBar::new(entries));
                run.set_style(style(
                    "  {prefix:>9} {bar:30.green} {pos:>7}/{len} {elapsed}",
                ));
                run.set_prefix("run");
            }
            Screen::Lines { tenth } => *tenth = 0,
            Screen::Silent => {}
        }
    }

    /// Shows how far a shard and the whole run have come; `note` says who has the shard.
    pub fn progress(&mut self, shard: usize, done: u64, note: &str, run_done: u64, entries: u64) {
        match self {
            Screen::Bars { run, shards, .. } => {
                if let Some(bar) = shards.get(shard) {
                    bar.set_position(done);
                    bar.set_message(note.to_owned());
                }
                run.set_position(run_done);
            }
            Screen::Lines { tenth } => {
                let reached = run_done.saturating_mul(10) / entries.max(1);
                if reached > *tenth {
                    *tenth = reached;
                    say(&format!(
                        "{:>3} % of the run: {run_done}/{entries}",
                        reached * 10
                    ));
                }
            }
            Screen::Silent => {}
        }
    }

    /// Something happened.
    pub fn event(&self, text: &str) {
        match self {
            Screen::Bars { all, .. } => {
                let _ = all.println(prose_beside(text).trim_end());
            }
            Screen::Lines { .. } => say(text),
            Screen::Silent => {}
        }
    }

    /// Takes the bars of a run away.
    pub fn end(&mut self) {
        if let Screen::Bars { all, run, shards } = self {
            let _ = all.clear();
            for bar in shards
                .drain(..)
                .chain([std::mem::replace(run, ProgressBar::hidden())])
            {
                bar.finish_and_clear();
            }
        }
    }
}

fn say(text: &str) {
    // Nobody may be reading; the demo goes on.
    let _ = write!(std::io::stderr().lock(), "{}", prose_beside(text));
}
