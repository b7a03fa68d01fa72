// Words and colours of states.
import { Badge } from "@mantine/core";
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

export function State({ state }: { state: string }) {
  const { states } = useWords();
  const text = (states as Record<string, string>)[state] ?? state;
  return (
    <Badge
      color={`${colorOf(state)}.6`}
      variant="dot"
      radius="sm"
      tt="none"
      style={{ flexShrink: 0, minWidth: "max-content" }}
    >
      {text}
    </Badge>
  );
}

/** A run's state, with what it waits for or that it is being stopped. */
export function RunState({ run }: { run: Run }) {
  if (run.stop && !run.ended_at) return <State state="stopping" />;
  return <State state={run.state} />;
}
