//! Rust source seen in parts: code alone, string contents alone, and code without its tests.
//!
//! Every view keeps the line breaks of the source, so a line number holds in all of them. This is
//! a lexer for comments, strings and braces, no parser.

/// The parts of one `.rs` file. In each, what does not belong is spaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Views {
    /// Without comments and without the contents of strings.
    pub code: String,
    /// `code` without the items under `#[cfg(test)]`.
    pub product: String,
    /// The contents of strings alone.
    pub strings: String,
}

impl Views {
    pub fn of(source: &str) -> Views {
        let (code, strings) = split(source);
        let product = without_tests(&code);
        Views {
            code,
            product,
            strings,
        }
    }

    /// Lines of the file that are not in a `#[cfg(test)]` item.
    pub fn lines_without_tests(&self) -> usize {
        let tests = self
            .code
            .lines()
            .zip(self.product.lines())
            .filter(|(code, product)| code != product)
            .count();
        self.code.lines().count() - tests
    }
}

/// Whether a script of the console's tests in a browser has a step of these words.
pub fn is_step(path: &str, text: &str, words: &str) -> bool {
    path.ends_with(".mjs") && text.contains(&format!("\"{words}\""))
}

/// Whether `word` stands in `line` as a whole identifier or path (`tokio::spawn`).
pub fn has_word(line: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        let open_start = word.starts_with(|c: char| !part(c));
        let open_end = word.ends_with(|c: char| !part(c));
        (open_start || !before.is_some_and(part)) && (open_end || !after.is_some_and(part))
    })
}

/// Separates code from string contents; comments belong to neither.
fn split(source: &str) -> (String, String) {
    let chars: Vec<char> = source.chars().collect();
    let mut out = Split::default();
    let mut at = 0;
    while at < chars.len() {
        let rest = &chars[at..];
        let taken = if rest.starts_with(&['/', '/']) {
            out.blank(rest.iter().take_while(|c| **c != '\n').count(), rest)
        } else if rest.starts_with(&['/', '*']) {
            out.blank(block_comment(rest), rest)
        } else if let Some((open, close, len)) = string(rest, at.checked_sub(1).map(|i| chars[i])) {
            out.string(rest, open, close, len)
        } else if let Some(len) = char_literal(rest) {
            out.blank(len, rest)
        } else {
            out.code(rest[0])
        };
        at += taken;
    }
    (out.code, out.strings)
}

#[derive(Default)]
struct Split {
    code: String,
    strings: String,
}

impl Split {
    fn code(&mut self, c: char) -> usize {
        self.code.push(c);
        self.strings.push(if c == '\n' { '\n' } else { ' ' });
        1
    }

    fn blank(&mut self, len: usize, rest: &[char]) -> usize {
        for c in &rest[..len] {
            let kept = if *c == '\n' { '\n' } else { ' ' };
            self.code.push(kept);
            self.strings.push(kept);
        }
        len
    }

    /// The quotes stay code, what is between them goes to the strings.
    fn string(&mut self, rest: &[char], open: usize, close: usize, len: usize) -> usize {
        for (i, c) in rest[..len].iter().enumerate() {
            if *c == '\n' {
                self.code.push('\n');
                self.strings.push('\n');
            } else if i < open || i >= len - close {
                self.code.push(*c);
                self.strings.push(' ');
            } else {
                self.code.push(' ');
                self.strings.push(*c);
            }
        }
        len
    }
}

fn block_comment(rest: &[char]) -> usize {
    let (mut depth, mut at) = (0usize, 0);
    while at < rest.len() {
        if rest[at..].starts_with(&['/', '*']) {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(&['*', '/']) {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

/// The lengths of the opening, the closing and the whole of a string literal that begins here.
fn string(rest: &[char], before: Option<char>) -> Option<(usize, usize, usize)> {
    let in_word = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let prefix = if in_word {
        0
    } else {
        rest.iter().take_while(|c| "bcr".contains(**c)).count()
    };
    let raw = rest[..prefix].contains(&'r');
    let hashes = if raw {
        rest[prefix..].iter().take_while(|c| **c == '#').count()
    } else {
        0
    };
    let open = prefix + hashes + 1;
    if rest.get(open - 1) != Some(&'"') {
        return None;
    }
    let mut at = open;
    while at < rest.len() {
        match rest[at] {
            '\\' if !raw => at += 2,
            '"' if rest[at + 1..].iter().take_while(|c| **c == '#').count() >= hashes => {
                return Some((open, 1 + hashes, at + 1 + hashes));
            }
            _ => at += 1,
        }
    }
    Some((open, 0, rest.len()))
}

/// The length of a character literal that begins here; a lifetime is none.
fn char_literal(rest: &[char]) -> Option<usize> {
    match rest {
        ['\'', '\\', _, tail @ ..] => tail
            .iter()
            .take(12)
            .position(|c| *c == '\'')
            .map(|end| end + 4),
        ['\'', _, '\'', ..] => Some(3),
        _ => None,
    }
}

/// Blanks each item that follows `#[cfg(test)]`, up to its closing brace.
fn without_tests(code: &str) -> String {
    const MARK: &str = "#[cfg(test)]";
    let mut out = code.to_owned();
    let mut from = 0;
    while let Some(found) = out[from..].find(MARK) {
        let start = from + found;
        let end = item_end(&out, start + MARK.len());
        let blank: String = out[start..end]
            .chars()
            .map(|c| if c == '\n' { '\n' } else { ' ' })
            .collect();
        from = start + blank.len();
        out.replace_range(start..end, &blank);
    }
    out
}

fn item_end(code: &str, from: usize) -> usize {
    let mut depth = 0usize;
    for (at, c) in code[from..].char_indices() {
        match c {
            ';' if depth == 0 => return from + at + 1,
            '{' => depth += 1,
            '}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return from + at + 1;
                }
            }
            _ => {}
        }
    }
    code.len()
}
