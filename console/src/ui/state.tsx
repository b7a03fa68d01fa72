// Words and colours of states.
import type { Run } from "../api/client";
import { useWords } from "../i18n/words";

const COLORS: Record<string, string> = {
  scheduled: "gray",
  running: "blue",
  retry: "orange",
  succeeded: "teal",
  partial: "orange",
  failed: "red",
  cancelled: "gray",
  paused: "yellow",
  live: "teal",
  finished: "teal",
  stopping: "grape",
  lost: "orange",
  timed_out: "red",
  released: "gray",
  draining: "yellow",
};

export function colorOf(state: string): string {
  return COLORS[state] ?? "gray";
}

/** A state's word beside a dot in its colour. Plain elements: long tables have one in each row. */
export function State({ state }: { state: string }) {
  const { states } = useWords();
  const text = (states as Record<string, string>)[state] ?? state;
  return (
    <span className="state">
      <i style={{ background: `var(--mantine-color-${colorOf(state)}-6)` }} />
      {text}
    </span>
  );
}

/** A run's state, with what it waits for or that it is being stopped. */
export function RunState({ run }: { run: Run }) {
  if (run.stop && !run.ended_at) return <State state="stopping" />;
  return <State state={run.state} />;
}
