// What became of each planned time of a job's last days: a row for each day, a cell for each time.
//
// Not here: times without a run or a record. The server's audit looks for those (`sichen audit`).
import { Box, Group, Text, Tooltip } from "@mantine/core";
import { Link } from "react-router";
import type { Decision, Run } from "../api/client";
import { useWords } from "../i18n/words";
import { inZone } from "../time/instant";
import { useInstant } from "../time/zone";
import { Section } from "../ui/parts";
import { colorOf } from "../ui/state";

/** Days that are shown, the newest first. */
const DAYS = 14;
/** Cells of one day. */
const CELLS = 96;

export interface Outcome {
  at: string;
  /** A run's state, or `skipped`. */
  state: string;
  run?: number;
  reason?: string;
  count: number;
}

/** Runs and records by day in `zone`, newest day first; within a day by time. */
export function byDay(runs: Run[], decisions: Decision[], zone: string): [string, Outcome[]][] {
  const all: Outcome[] = [
    ...runs.flatMap((run) =>
      run.planned_at ? [{ at: run.planned_at, state: run.state, run: run.id, count: 1 }] : [],
    ),
    ...decisions
      .filter((decision) => decision.reason !== "removed" && decision.reason !== "gap")
      .map((decision) => ({
        at: decision.from,
        state: "skipped",
        reason: decision.reason,
        count: decision.count,
      })),
  ];
  all.sort((a, b) => Date.parse(a.at) - Date.parse(b.at));
  const days = new Map<string, Outcome[]>();
  for (const outcome of all) {
    const day = inZone(outcome.at, zone).slice(0, 10);
    days.set(day, [...(days.get(day) ?? []), outcome]);
  }
  return [...days].sort(([a], [b]) => (a < b ? 1 : -1)).slice(0, DAYS);
}

export function Outcomes({
  runs,
  decisions,
  zone,
}: {
  runs: Run[];
  decisions: Decision[];
  zone: string;
}) {
  const { job, states, reasons } = useWords();
  const instant = useInstant();
  const days = byDay(runs, decisions, zone);
  if (days.length === 0) return null;
  const words = (outcome: Outcome) => {
    const why =
      outcome.state === "skipped"
        ? ((reasons as Record<string, string>)[outcome.reason ?? ""] ?? outcome.reason)
        : ((states as Record<string, string>)[outcome.state] ?? outcome.state);
    const many = outcome.count > 1 ? ` × ${outcome.count}` : "";
    return `${instant(outcome.at, zone)}${many} · ${why}`;
  };
  return (
    <Section title={job.outcomes}>
      <Box role="list" aria-label={job.outcomes}>
        {days.map(([day, outcomes]) => (
          <Group key={day} gap={3} wrap="nowrap" align="center" role="listitem" mb={2}>
            <Text size="xs" c="dimmed" w={82} style={{ flexShrink: 0 }}>
              {day}
            </Text>
            <Group gap={3}>
              {outcomes.slice(0, CELLS).map((outcome) => {
                const text = words(outcome);
                const style = {
                  width: 12,
                  height: 12,
                  borderRadius: 3,
                  display: "block",
                  ...(outcome.state === "skipped"
                    ? { border: "2px solid var(--mantine-color-orange-6)" }
                    : { background: `var(--mantine-color-${colorOf(outcome.state)}-6)` }),
                };
                const key = `${outcome.at} ${outcome.run ?? outcome.reason}`;
                return (
                  <Tooltip key={key} label={text}>
                    {outcome.run ? (
                      <Link to={`/runs/${outcome.run}`} aria-label={text} style={style} />
                    ) : (
                      <span role="img" aria-label={text} style={style} />
                    )}
                  </Tooltip>
                );
              })}
            </Group>
          </Group>
        ))}
      </Box>
    </Section>
  );
}
