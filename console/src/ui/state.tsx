// Words and colours of states.
import type { ReactNode } from "react";
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
  connected: "teal",
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

/** A word beside a dot in a colour. Plain elements: long tables have one in each row. */
export function Dot({ color, children }: { color: string; children: ReactNode }) {
  return (
    <span className="state">
      <i style={{ background: `var(--mantine-color-${color}-6)` }} />
      {children}
    </span>
  );
}

export function State({ state }: { state: string }) {
  const { states } = useWords();
  return <Dot color={colorOf(state)}>{(states as Record<string, string>)[state] ?? state}</Dot>;
}

/** A run's state, with what it waits for or that it is being stopped. */
export function RunState({ run }: { run: Run }) {
  if (run.stop && !run.ended_at) return <State state="stopping" />;
  return <State state={run.state} />;
}
