//! Feeds a reader bytes that nobody meant, and sees to it that it answers.
//!
//! A target is a test in the crate that owns the reader, named `fuzz::NAME`: it calls [`fuzz`] with its name,
//! some words of its language, and the reader. Inputs are made from the kept ones (`testdata/fuzz/NAME`), and
//! from those that a target makes itself because no editor can write them, by
//! small changes. One whose answer has a shape that was not seen before is worth changing further; a long
//! search (`cargo xtask fuzz`) also writes it down. So the search goes by what the reader answers, not by
//! which of its branches ran: that needs no compiler of its own, and finds less.
//!
//! # Invariants
//! - What breaks a reader, or takes it longer than [`MAX_SECONDS`], is kept as `testdata/fuzz/NAME/found-…`
//!   and fails the target from then on, until the reader is mended.
//! - The same seed and number of steps give the same inputs.
//!
//! # Not here
//! The readers, and what their answers must be.

mod mutate;

use std::collections::HashSet;
use std::fs;
use std::hash::{DefaultHasher, Hasher as _};
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use mutate::Dice;

/// The longest input, in bytes.
pub const MAX_INPUT_BYTES: usize = 4_096;
/// Inputs of one target that are kept in the repository.
pub const MAX_KEPT: usize = 64;
/// Of an answer so much tells it from others, in characters.
const MAX_ANSWER_CHARS: usize = 400;
/// How long one input may take, in seconds; far more than any needs, for the machine may be busy.
pub const MAX_SECONDS: u64 = 20;
/// How long a target runs, in seconds; `cargo xtask fuzz` sets it.
pub const SECONDS: &str = "SICHEN_FUZZ_SECONDS";
/// From what chance begins; set, or the same in each short run.
pub const SEED: &str = "SICHEN_FUZZ_SEED";
/// Set, inputs whose answers are new are kept.
pub const KEEP: &str = "SICHEN_FUZZ_KEEP";
/// How long a target runs among the other tests.
const SHORT_SECONDS: u64 = 2;

/// What is being read, for the watch over it.
type Now = Arc<Mutex<Option<(Instant, Vec<u8>)>>>;

/// Feeds `read` with what is kept under `name`, with `seeds` and with what chance makes of both until the time is
/// over. What it answers tells inputs apart, but for numbers in it.
///
/// # Panics
/// If it panics itself, for which input and where that is kept.
pub fn fuzz(name: &str, words: &[&str], seeds: &[Vec<u8>], read: impl Fn(&[u8]) -> String) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../testdata/fuzz/{name}"));
    let said = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let seconds = said(SECONDS).unwrap_or(SHORT_SECONDS);
    let seed = said(SEED).unwrap_or(1);
    let keep = std::env::var_os(KEEP).is_some();
    let mut search = Search {
        dir,
        seen: HashSet::new(),
        inputs: seeds.to_vec(),
        kept: 0,
        now: Now::default(),
    };
    search.watch();
    search.begin(&read);
    let begun = begin();
    let (mut dice, mut steps) = (Dice::new(seed), 0u64);
    while begun.elapsed() < Duration::from_secs(seconds) {
        let input = mutate::made(&mut dice, &search.inputs, words);
        if search.is_new(&read, &input) {
            if keep {
                search.keep(&input);
            }
            search.inputs.push(input);
        }
        steps += 1;
    }
    assert!(steps > 0, "{name}: not one input in {seconds} s");
    // For who asked for a long search; among the tests nobody looks.
    let _ = writeln!(
        std::io::stdout(),
        "{name}: seed {seed}, {steps} inputs in {seconds} s, {} shapes of answers, {} inputs kept",
        search.seen.len(),
        search.kept
    );
}

#[expect(
    clippy::disallowed_methods,
    reason = "a search lasts as long as it is told"
)]
fn begin() -> Instant {
    Instant::now()
}

struct Search {
    dir: PathBuf,
    seen: HashSet<u64>,
    inputs: Vec<Vec<u8>>,
    kept: usize,
    now: Now,
}

impl Search {
    /// Reads what is kept, in the order of the files' names.
    fn begin(&mut self, read: &impl Fn(&[u8]) -> String) {
        let files = fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let mut files: Vec<PathBuf> = files.map(|file| file.path()).collect();
        files.sort();
        for input in self.inputs.clone() {
            self.is_new(read, &input);
        }
        for file in files {
            let input = fs::read(&file).expect("a kept input can be read");
            self.is_new(read, &input);
            self.inputs.push(input);
            self.kept += 1;
        }
        let dir = self.dir.display();
        assert!(!self.inputs.is_empty(), "{dir}: nothing to begin from");
    }

    /// Whether an input is answered as none before.
    fn is_new(&mut self, read: &impl Fn(&[u8]) -> String, input: &[u8]) -> bool {
        *lock(&self.now) = Some((begin(), input.to_vec()));
        let answer = catch_unwind(AssertUnwindSafe(|| read(input)));
        *lock(&self.now) = None;
        let Ok(answer) = answer else {
            let place = found(&self.dir, input);
            panic!("{place}: it broke the reader; mend that, and let the file stay");
        };
        self.seen.insert(shape(&answer, input))
    }

    fn keep(&mut self, input: &[u8]) {
        if self.kept < MAX_KEPT {
            // A target that makes its first inputs itself may have no folder yet.
            let _ = fs::create_dir_all(&self.dir);
            let place = self.dir.join(format!("{:016x}", digest(input)));
            // Beside those that are there, if it can be written.
            self.kept += usize::from(fs::write(place, input).is_ok());
        }
    }

    /// Ends the process when one input takes too long: nobody else would say which it was.
    fn watch(&self) {
        let (now, dir) = (self.now.clone(), self.dir.clone());
        std::thread::spawn(move || {
            loop {
                std::thread::park_timeout(Duration::from_secs(1));
                let reading = lock(&now).clone();
                if let Some((since, input)) = reading
                    && since.elapsed() > Duration::from_secs(MAX_SECONDS)
                {
                    let place = found(&dir, &input);
                    let told = format!("{place}: the reader took more than {MAX_SECONDS} s for it");
                    let _ = writeln!(std::io::stderr(), "{told}");
                    std::process::abort();
                }
            }
        });
    }
}

fn lock(now: &Now) -> std::sync::MutexGuard<'_, Option<(Instant, Vec<u8>)>> {
    now.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps an input that broke something; where.
fn found(dir: &Path, input: &[u8]) -> String {
    let _ = fs::create_dir_all(dir);
    let place = dir.join(format!("found-{:016x}", digest(input)));
    match fs::write(&place, input) {
        Ok(()) => place.display().to_string(),
        Err(error) => format!("{input:?} (not kept: {error})"),
    }
}

fn digest(of: impl std::hash::Hash) -> u64 {
    // Its keys are fixed, so a name is the same in each run.
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

/// An answer without what it has from the input, without numbers and without what it quotes: those are as many
/// as the inputs.
fn shape(answer: &str, input: &[u8]) -> u64 {
    let mut plain = String::new();
    let mut quoted = None;
    for c in answer.chars().take(MAX_ANSWER_CHARS) {
        match (quoted, c) {
            (Some(end), c) if c == end => quoted = None,
            (Some(_), _) => {}
            (None, '`' | '"') => quoted = Some(c),
            (None, c) if c.is_ascii_alphabetic() => plain.push(c),
            (None, _) if plain.ends_with(' ') => {}
            (None, _) => plain.push(' '),
        }
    }
    let input = String::from_utf8_lossy(input);
    let of_input: HashSet<&str> = words(&input).collect();
    let own: Vec<&str> = words(&plain)
        .filter(|word| !of_input.contains(word))
        .collect();
    digest(own)
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphabetic())
        .filter(|word| word.len() > 2)
}

#[cfg(test)]
mod tests;
