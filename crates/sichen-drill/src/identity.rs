//! Which build of a program it is, so that two drills of different builds are not taken for one.
//!
//! # Not here
//! Its version: that is the same for many builds.

use std::path::Path;

use sha2::{Digest as _, Sha256};

/// The note's kind that the linker names the build in.
const BUILD_ID: u32 = 3;
/// A segment of notes.
const NOTES: u32 = 4;
/// The longest head and notes that are looked through.
const HEAD_BYTES: usize = 1 << 20;

/// The name that the linker gave it; of a program without one, the digest of its bytes.
pub(crate) fn of(exe: &Path) -> String {
    let Ok(bytes) = std::fs::read(exe) else {
        return "a program that can't be read".to_owned();
    };
    let hex = |bytes: &[u8]| -> String { bytes.iter().map(|byte| format!("{byte:02x}")).collect() };
    match build_id(&bytes[..bytes.len().min(HEAD_BYTES)]) {
        Some(id) => format!("build {}", hex(id)),
        None => format!("sha256 {}", hex(&Sha256::digest(&bytes))),
    }
}

fn number(bytes: &[u8], at: usize, length: usize) -> Option<usize> {
    let bytes = bytes.get(at..at.checked_add(length)?)?;
    let number = bytes
        .iter()
        .rev()
        .fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
    usize::try_from(number).ok()
}

/// Of an ELF file of 64 bits in this machine's order of bytes.
fn build_id(elf: &[u8]) -> Option<&[u8]> {
    if !elf.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let (table, size, count) = (
        number(elf, 32, 8)?,
        number(elf, 54, 2)?,
        number(elf, 56, 2)?,
    );
    (0..count).find_map(|n| {
        let head = table.checked_add(n.checked_mul(size)?)?;
        let is_notes = number(elf, head, 4)? == NOTES as usize;
        let (from, length) = (number(elf, head + 8, 8)?, number(elf, head + 32, 8)?);
        let notes = elf.get(from..from.checked_add(length)?)?;
        is_notes.then(|| id_of(notes))?
    })
}

fn id_of(mut notes: &[u8]) -> Option<&[u8]> {
    loop {
        let (name, text) = (number(notes, 0, 4)?, number(notes, 4, 4)?);
        let from = 12 + name.next_multiple_of(4);
        let id = notes.get(from..from.checked_add(text)?)?;
        let kind = number(notes, 8, 4)?;
        if kind == BUILD_ID as usize && notes.get(12..12 + name)? == b"GNU\0" {
            return Some(id);
        }
        notes = notes.get(from + text.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests;
