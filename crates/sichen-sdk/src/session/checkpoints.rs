//! Checkpoints: from the handler to the server, and the server's answer.

use sichen_proto::v1;
use v1::worker_message::Message as ToServer;

use super::attempts::Fate;
use super::{Boot, Lease, Output, Session};

/// Checkpoints of different attempts whose answers are awaited at once; others wait their turn, so
/// that no number of slots overflows the stream.
pub(super) const MAX_CHECKPOINTS_IN_FLIGHT: usize = 256;

impl Session {
    pub(super) fn on_checkpoint(
        &mut self,
        lease: Lease,
        checkpoint: v1::Checkpoint,
        flush: bool,
        now: Boot,
    ) {
        let Some(attempt) = self.attempts.get_mut(&lease) else {
            return;
        };
        let known = attempt.newest.as_ref().map_or(0, |newest| newest.seq);
        attempt.flush |= flush;
        if checkpoint.seq <= known {
            return;
        }
        attempt.sign = now;
        if checkpoint.counters.is_some() {
            attempt.counters.clone_from(&checkpoint.counters);
        }
        attempt.newest = Some(checkpoint);
    }

    pub(super) fn send_checkpoints(&mut self, now: Boot) {
        let mut messages = Vec::new();
        let mut free = MAX_CHECKPOINTS_IN_FLIGHT.saturating_sub(self.checkpoints_in_flight());
        for (lease, attempt) in &mut self.attempts {
            if attempt.checkpoint_at().is_some_and(|at| now >= at)
                && let Some(checkpoint) = attempt.newest.clone()
            {
                if !attempt.in_flight() {
                    if free == 0 {
                        continue;
                    }
                    free -= 1;
                }
                attempt.sent_seq = checkpoint.seq;
                attempt.last_sent = Some(now);
                attempt.flush = false;
                messages.push(v1::CheckpointReport {
                    shard: Some(lease.shard()),
                    token: lease.token,
                    checkpoint: Some(checkpoint),
                });
            }
        }
        for message in messages {
            self.send(ToServer::Checkpoint(message));
        }
    }

    pub(super) fn checkpoints_in_flight(&self) -> usize {
        self.attempts.values().filter(|a| a.in_flight()).count()
    }

    pub(super) fn on_checkpoint_ack(&mut self, ack: v1::CheckpointAck, now: Boot) {
        let Some(lease) = Lease::from_wire(ack.shard, ack.token) else {
            return;
        };
        let Some(attempt) = self.attempts.get_mut(&lease) else {
            return;
        };
        let verdict = ack.verdict();
        match verdict {
            v1::Verdict::Accepted | v1::Verdict::Duplicate => {
                attempt.acked_seq = attempt.acked_seq.max(ack.seq)
            }
            v1::Verdict::Stale | v1::Verdict::Conflict => {
                self.stop(lease, Fate::Discard, v1::Reason::StaleToken, None, now);
            }
            v1::Verdict::RetryLater | v1::Verdict::Unspecified => {
                // Sent again with the next slot of the rate limit.
                attempt.sent_seq = attempt.sent_seq.min(ack.seq.saturating_sub(1));
                return;
            }
        }
        self.out.push(Output::CheckpointVerdict {
            lease,
            seq: ack.seq,
            verdict,
        });
    }

    /// After a new stream: what was sent on the old one may not have arrived.
    pub(super) fn resend_checkpoints(&mut self) {
        for attempt in self.attempts.values_mut() {
            attempt.sent_seq = attempt.acked_seq;
        }
    }
}
