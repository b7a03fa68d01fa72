//! Ended attempts, until the server has decided about their reports.

use prost::Message as _;
use sha2::{Digest as _, Sha256};
use sichen_proto::v1;
use v1::worker_message::Message as ToServer;

use super::{Boot, JournalOp, Lease, Note, Session};

/// An unanswered report or checkpoint is sent again after this long, on a stream that looks alive.
pub(super) const ANSWER_WITHIN_MS: u64 = 10_000;
/// Reports whose answers are awaited at once; others wait their turn, so that no number of results
/// overflows the stream.
const MAX_REPORTS_IN_FLIGHT: usize = 256;
const RETRY_FIRST_MS: u64 = 200;
const RETRY_MAX_MS: u64 = 10_000;

#[derive(Debug)]
pub(super) struct Report {
    pub(super) finish: v1::Finish,
    /// The journal has answered, well or badly.
    journaled: bool,
    /// It stands in the journal.
    durable: bool,
    /// Its size when encoded.
    bytes: usize,
    /// When to send it, again or for the first time.
    due: Boot,
    /// Sent, and its answer awaited.
    in_flight: bool,
    retries: u32,
}

impl Report {
    pub(super) fn new(mut finish: v1::Finish) -> Report {
        finish.digest = digest(&finish);
        Report {
            bytes: finish.encoded_len(),
            finish,
            journaled: false,
            durable: false,
            due: Boot(0),
            in_flight: false,
            retries: 0,
        }
    }

    pub(super) fn recovered(finish: v1::Finish) -> Report {
        Report {
            bytes: finish.encoded_len(),
            finish,
            journaled: true,
            durable: true,
            due: Boot(0),
            in_flight: false,
            retries: 0,
        }
    }

    pub(super) fn may_be_sent(&self) -> bool {
        self.journaled
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// SHA-256 of what a report decides: outcome, error code and kind, result, plan. The same attempt
/// reported twice gives the same digest, whatever its durations.
fn digest(finish: &v1::Finish) -> Vec<u8> {
    let essence = v1::Finish {
        shard: finish.shard,
        token: finish.token,
        outcome: finish.outcome,
        error: finish.error.clone().map(|error| v1::AttemptError {
            message: String::new(),
            ..error
        }),
        result: finish.result.clone(),
        plan: finish.plan.clone(),
        ..v1::Finish::default()
    };
    Sha256::digest(essence.encode_to_vec()).to_vec()
}

impl Session {
    pub(super) fn on_finish_journaled(&mut self, lease: Lease, ok: bool, now: Boot) {
        self.degraded = !ok;
        if let Some(report) = self.reports.get_mut(&lease) {
            // Not written: it is kept in memory, and reporting it now is the best that is left.
            // Once it may be sent, being written later changes nothing about when.
            if !report.journaled {
                report.due = now;
            }
            report.journaled = true;
            report.durable = ok;
        }
    }

    /// The journal can be written again, or can't be. What could not be written is written now: its
    /// server may be away for longer than this process lives.
    pub(super) fn on_journal_healthy(&mut self, healthy: bool) {
        self.degraded = !healthy;
        if !healthy {
            return;
        }
        let owed = self.reports.values().filter(|r| r.journaled && !r.durable);
        let owed: Vec<v1::Finish> = owed.map(|report| report.finish.clone()).collect();
        for finish in owed {
            self.journal(JournalOp::Finish(Box::new(finish)));
        }
    }

    pub(super) fn send_reports(&mut self, now: Boot) {
        let mut due = Vec::new();
        let mut free = MAX_REPORTS_IN_FLIGHT.saturating_sub(self.reports_in_flight());
        for report in self.reports.values_mut() {
            if report.journaled && now >= report.due {
                if !report.in_flight {
                    if free == 0 {
                        continue;
                    }
                    free -= 1;
                    report.in_flight = true;
                }
                report.due = now.plus(ANSWER_WITHIN_MS);
                due.push(report.finish.clone());
            }
        }
        for finish in due {
            self.send(ToServer::Finish(finish));
        }
    }

    pub(super) fn on_finish_ack(&mut self, ack: v1::FinishAck, now: Boot) {
        let Some(lease) = Lease::from_wire(ack.shard, ack.token) else {
            return;
        };
        let Some(report) = self.reports.get_mut(&lease) else {
            return;
        };
        let why = match ack.verdict() {
            v1::Verdict::Accepted => "accepted",
            v1::Verdict::Duplicate => "accepted before",
            v1::Verdict::Stale => "stale",
            v1::Verdict::Conflict => "conflict",
            v1::Verdict::RetryLater | v1::Verdict::Unspecified => {
                let wait = (RETRY_FIRST_MS << report.retries.min(10)).min(RETRY_MAX_MS);
                report.retries = report.retries.saturating_add(1);
                report.due = now.plus(wait);
                report.in_flight = false;
                return;
            }
        };
        if matches!(ack.verdict(), v1::Verdict::Stale | v1::Verdict::Conflict) {
            self.note(Note::Dropped {
                lease,
                why: format!("{why}: {}", ack.detail),
            });
        }
        if let Some(report) = self.reports.remove(&lease) {
            self.backlog = self.backlog.saturating_sub(report.bytes());
        }
        self.journal(JournalOp::Forget { lease, why });
    }

    /// After a new stream: answers to what was sent on the old one will not come.
    pub(super) fn resend_all(&mut self) {
        for report in self.reports.values_mut() {
            report.due = Boot(0);
            report.in_flight = false;
        }
        self.resend_checkpoints();
    }

    fn reports_in_flight(&self) -> usize {
        self.reports.values().filter(|r| r.in_flight).count()
    }

    pub(super) fn reports_wake(&self) -> Option<Boot> {
        // What has to wait for an answer to another is no reason to wake.
        let full = self.reports_in_flight() >= MAX_REPORTS_IN_FLIGHT;
        self.reports
            .values()
            .filter(|report| report.journaled && (!full || report.in_flight))
            .map(|report| report.due)
            .min()
    }
}
