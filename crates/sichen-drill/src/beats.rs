//! Takes workers' beats out of their stream to the server and lets everything else through: a proxy
//! that understands just enough of HTTP/2 and of the session protocol.
//!
//! # Invariants
//! - Bytes that are not understood pass as they are: at worst nothing is lost.
//! - A frame that is cut short at the end of what was read waits for the rest.
//!
//! # Not here
//! Carrying ([`crate::proxy`]).

/// What a client says first.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Of a frame's head: length (3), kind (1), flags (1), stream (4).
const HEAD: usize = 9;
const DATA: u8 = 0;
const PADDED: u8 = 0x8;
const END_STREAM: u8 = 0x1;
/// Of a message's head: compressed (1), length (4).
const MESSAGE_HEAD: usize = 5;
/// The field `beat` of `WorkerMessage`, and how it is written: number 2, length-delimited.
const BEAT_TAG: u8 = 2 << 3 | 2;

/// One connection's way to the server.
#[derive(Debug, Default)]
pub(crate) struct Beats {
    waiting: Vec<u8>,
    is_past_preface: bool,
    /// Something else than HTTP/2, or a frame as long as none is.
    is_lost: bool,
}

impl Beats {
    /// What of `bytes`, and of what waited, goes on; and how many bytes of beats were taken out.
    pub(crate) fn take(&mut self, bytes: &[u8], drop_beats: bool) -> (Vec<u8>, u64) {
        self.waiting.extend_from_slice(bytes);
        let mut out = Vec::with_capacity(self.waiting.len());
        let mut lost = 0;
        if !self.is_past_preface && !self.is_lost {
            if self.waiting.len() < PREFACE.len() {
                if PREFACE.starts_with(&self.waiting) {
                    return (out, 0);
                }
                self.is_lost = true;
            } else if self.waiting.starts_with(PREFACE) {
                out.extend(self.waiting.drain(..PREFACE.len()));
                self.is_past_preface = true;
            } else {
                self.is_lost = true;
            }
        }
        if self.is_lost {
            out.append(&mut self.waiting);
            return (out, 0);
        }
        let mut at = 0;
        while let Some(head) = self.waiting.get(at..at + HEAD) {
            let length =
                usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
            let Some(frame) = self.waiting.get(at..at + HEAD + length) else {
                break;
            };
            match drop_beats.then(|| without_beats(frame)).flatten() {
                Some(rest) => {
                    lost += u64::try_from(frame.len() - rest.len()).unwrap_or(0);
                    out.extend(rest);
                }
                None => out.extend_from_slice(frame),
            }
            at += HEAD + length;
        }
        self.waiting.drain(..at);
        (out, lost)
    }
}

/// The frame without beats, if it has any and is understood; nothing at all if nothing else is in it.
fn without_beats(frame: &[u8]) -> Option<Vec<u8>> {
    let (kind, flags) = (frame[3], frame[4]);
    if kind != DATA || flags & PADDED != 0 {
        return None;
    }
    let mut kept = Vec::new();
    let mut rest = &frame[HEAD..];
    while !rest.is_empty() {
        let head = rest.get(..MESSAGE_HEAD)?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        let whole = MESSAGE_HEAD.checked_add(usize::try_from(length).ok()?)?;
        // A message that goes on in the next frame: not one of the short ones that are meant.
        let message = rest.get(..whole)?;
        if message.get(MESSAGE_HEAD) != Some(&BEAT_TAG) || head[0] != 0 {
            kept.extend_from_slice(message);
        }
        rest = &rest[whole..];
    }
    if kept.len() == frame.len() - HEAD {
        return None;
    }
    if kept.is_empty() && flags & END_STREAM == 0 {
        return Some(Vec::new());
    }
    let mut out = frame[..HEAD].to_vec();
    let length = u32::try_from(kept.len()).ok()?.to_be_bytes();
    out[..3].copy_from_slice(&length[1..]);
    out.extend(kept);
    Some(out)
}

#[cfg(test)]
mod tests;
