//! The name that somebody probably meant.
//!
//! # Not here
//! Acting on it: it is only ever proposed.

/// The one of `names` that is nearest to `name`, if one is near enough to be meant.
#[must_use]
pub fn nearest<'a>(name: &str, names: &[&'a str]) -> Option<&'a str> {
    let plain = |text: &str| -> Vec<char> {
        let kept = text.chars().filter(|c| c.is_alphanumeric());
        kept.flat_map(char::to_lowercase).take(64).collect()
    };
    let wanted = plain(name);
    let far = 1 + wanted.len() / 4;
    let ranked = names.iter().map(|n| (distance(&wanted, &plain(n)), *n));
    ranked
        .filter(|(d, _)| *d <= far)
        .min_by_key(|(d, _)| *d)
        .map(|(_, n)| n)
}

/// The least number of insertions, deletions and replacements that make `a` into `b`.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
