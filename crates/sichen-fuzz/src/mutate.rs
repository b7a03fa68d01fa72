//! Inputs made of others by small changes.
//!
//! # Not here
//! Which of them are worth anything ([`crate::fuzz`]).

use crate::MAX_INPUT_BYTES;

/// Numbers at which arithmetic turns, and what is close to a number.
const NUMBERS: &[&str] = &[
    "0",
    "-1",
    "1",
    "59",
    "60",
    "255",
    "256",
    "1000",
    "65535",
    "65536",
    "2147483647",
    "2147483648",
    "-2147483648",
    "4294967295",
    "4294967296",
    "9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "99999999999999999999999999",
    "1e308",
    "1e999",
    ".5",
    "0x10",
    "1_000",
    "NaN",
    "inf",
    "٣",
];
/// What readers of text stumble over.
const ODD: &[&str] = &[
    "\0",
    "\r",
    "\r\n",
    "\t",
    "\u{feff}",
    "\u{202e}",
    "\u{200b}",
    "é",
    "司辰",
    "😀",
    "\u{1b}[31m",
    "\\",
    "\"",
    "'",
    "`",
    "%",
    "%00",
    "%2f",
    "../",
    "{{",
    "}}",
    "[",
    "{",
    "- ",
    ": ",
    "#",
    "&a ",
    "*a",
    "!!",
    "---\n",
    "?",
    "<<: ",
    "|",
    ">",
    "\u{80}",
    "\u{7f}",
];

/// Chance that a seed decides (splitmix64).
#[derive(Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0, below `n`; 0 if there is nothing below.
    fn below(&mut self, n: usize) -> usize {
        let n = u64::try_from(n).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.next() % n).unwrap_or(0)
    }

    fn one_of<'a>(&mut self, of: &[&'a str]) -> &'a [u8] {
        of.get(self.below(of.len()))
            .map_or(b"", |text| text.as_bytes())
    }
}

/// An input made of one of `inputs`, with `words` of the language.
pub(crate) fn made(dice: &mut Dice, inputs: &[Vec<u8>], words: &[&str]) -> Vec<u8> {
    let mut input = inputs.get(dice.below(inputs.len())).cloned();
    let mut input = input.take().unwrap_or_default();
    for _ in 0..=dice.below(4) {
        change(dice, &mut input, inputs, words);
    }
    input.truncate(MAX_INPUT_BYTES);
    input
}

fn change(dice: &mut Dice, input: &mut Vec<u8>, inputs: &[Vec<u8>], words: &[&str]) {
    let at = dice.below(input.len() + 1);
    match dice.below(12) {
        0 => {
            if let Some(byte) = input.get_mut(at) {
                *byte ^= 1 << dice.below(8);
            }
        }
        1 => {
            if let Some(byte) = input.get_mut(at) {
                *byte = u8::try_from(dice.below(256)).unwrap_or(0);
            }
        }
        2 => drop(input.drain(at..end(dice, at, input.len()))),
        3 => {
            let part = input[at..end(dice, at, input.len())].to_vec();
            put(input, at, &part);
        }
        4 => input.truncate(at),
        5 => number(dice, input),
        6 => put(input, at, dice.one_of(ODD)),
        7 => {
            let word = dice.one_of(words);
            let times = [1, 1, 1, 2, 50, 1_000][dice.below(6)];
            put(input, at, &word.repeat(times));
        }
        8 => {
            // What ends one with what goes on in another.
            if let Some(other) = inputs.get(dice.below(inputs.len())) {
                let from = dice.below(other.len() + 1);
                input.truncate(at);
                input.extend_from_slice(&other[from..]);
            }
        }
        9 => line(dice, input),
        _ => put(input, at, dice.one_of(words)),
    }
}

fn end(dice: &mut Dice, at: usize, len: usize) -> usize {
    let most = [4, 32, len][dice.below(3)];
    (at + dice.below(most + 1)).min(len)
}

fn put(input: &mut Vec<u8>, at: usize, what: &[u8]) {
    let room = MAX_INPUT_BYTES.saturating_sub(input.len());
    let what = &what[..what.len().min(room)];
    drop(input.splice(at..at, what.iter().copied()));
}

/// Another number in the place of one.
fn number(dice: &mut Dice, input: &mut Vec<u8>) {
    let is_digit = |byte: &u8| byte.is_ascii_digit();
    let starts: Vec<usize> = (0..input.len())
        .filter(|at| is_digit(&input[*at]) && (*at == 0 || !is_digit(&input[at - 1])))
        .collect();
    let Some(start) = starts.get(dice.below(starts.len())).copied() else {
        return;
    };
    let digits = input[start..].iter().take_while(|byte| is_digit(byte));
    let end = start + digits.count();
    let other = dice.one_of(NUMBERS);
    drop(input.splice(start..end, other.iter().copied()));
}

/// A line twice, or not at all.
fn line(dice: &mut Dice, input: &mut Vec<u8>) {
    let mut lines: Vec<Vec<u8>> = input
        .split(|byte| *byte == b'\n')
        .map(<[u8]>::to_vec)
        .collect();
    let at = dice.below(lines.len());
    match dice.below(3) {
        0 => drop(lines.remove(at)),
        1 => lines.insert(at, lines[at].clone()),
        _ => {
            let other = dice.below(lines.len());
            lines.swap(at, other);
        }
    }
    *input = lines.join(&b'\n');
}
