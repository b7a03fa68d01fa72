// What the text of an alert names: a job, a run.
import type { JobName } from "../api/queries";

/** The job that a subject names: `nightly` or `payments/nightly`. */
export function jobOf(subject: string): JobName | null {
  const [first = "", second, ...more] = subject.split("/");
  if (first === "" || second === "" || more.length > 0) return null;
  return second === undefined
    ? { namespace: "default", name: first }
    : { namespace: first, name: second };
}

/** The key of the run that a cause names at its end by its planned time, or by the key of its request. */
export function runOf(subject: string, cause: string): string | null {
  const named = /^.*\(run (.+)\)$/s.exec(cause) ?? /^pool \S+ took none of run (.+)$/s.exec(cause);
  const occasion = named?.[1];
  if (occasion === undefined) return null;
  const isPlanned = /^\d{4,}-\d\d-\d\dT\d\d:\d\d/.test(occasion);
  return isPlanned ? `${subject}:${occasion}` : `${subject}:manual:${occasion}`;
}
