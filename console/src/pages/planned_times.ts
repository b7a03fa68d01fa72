// What is recorded of each planned time: a run, a reason, nothing yet, or nothing at all.
import type { BackfillInstant, Decision, Job } from "../api/client";

export interface Recorded {
  at: string;
  /** `covered`: another run stands for it; `before`: the job was not there yet. */
  what: "run" | "record" | "covered" | "removed" | "undecided" | "before" | "nothing";
  run?: number;
  state?: string;
  /** Why it did not run. */
  reason?: string;
}

/** What is recorded of `instants`, which the server worked out, with the reasons that `decisions` have. */
export function recordedOf(
  job: Pick<Job, "created_at" | "decided_until">,
  instants: BackfillInstant[],
  decisions: Decision[],
): Recorded[] {
  const [created, decided] = [Date.parse(job.created_at), Date.parse(job.decided_until)];
  const spans = decisions
    .map(({ from, to, reason }) => ({ from: Date.parse(from), to: Date.parse(to), reason }))
    .filter(({ reason }) => reason !== "gap" && reason !== "removed");
  return instants.map((instant) => {
    const { at } = instant;
    const ms = Date.parse(at);
    const found = spans.find(({ from, to }) => from <= ms && ms <= to);
    const reason = found === undefined ? {} : { reason: found.reason };
    if (instant.run != null) {
      const state = instant.run_state == null ? {} : { state: instant.run_state };
      return { at, what: "run", run: instant.run, ...state };
    }
    if (instant.why === "covered") return { at, what: "covered", ...reason };
    if (instant.why === "removed") return { at, what: "removed" };
    if (instant.skipped || found !== undefined) return { at, what: "record", ...reason };
    if (ms > decided) return { at, what: "undecided" };
    if (ms < created) return { at, what: "before" };
    return { at, what: "nothing" };
  });
}
