// How long a job's last runs took, each as a bar in the colour of its outcome, with the usual band.
//
// Not here: a chart library. It is a hundred bars, and each is a link.
import { Box, Group, Text } from "@mantine/core";
import { Link } from "react-router";
import type { Run } from "../api/client";
import { useWords } from "../i18n/words";
import { between, length } from "../time/instant";
import { useInstant } from "../time/zone";
import { colorOf } from "./state";

const HEIGHT = 64;

/** The `share` of sorted `values` from below. */
export function quantile(sorted: number[], share: number): number {
  if (sorted.length === 0) return 0;
  const at = Math.min(sorted.length - 1, Math.max(0, Math.ceil(share * sorted.length) - 1));
  return sorted[at] ?? 0;
}

export function Durations({ runs, zone }: { runs: Run[]; zone: string }) {
  const { job, states, words } = useWords();
  const instant = useInstant();
  const ended = runs
    .flatMap((run) =>
      run.started_at && run.ended_at ? [{ run, ms: between(run.started_at, run.ended_at) }] : [],
    )
    .reverse();
  if (ended.length < 3) return null;
  const good = ended.filter(({ run }) => run.state === "succeeded").map(({ ms }) => ms);
  const sorted = (good.length > 0 ? good : ended.map(({ ms }) => ms)).sort((a, b) => a - b);
  const [low, middle, high] = [quantile(sorted, 0.1), quantile(sorted, 0.5), quantile(sorted, 0.9)];
  const most = Math.max(1, ...ended.map(({ ms }) => ms));
  const y = (ms: number) => Math.round((HEIGHT * ms) / most);
  return (
    <Box>
      <Group justify="space-between" mb={4}>
        <Text size="xs" c="dimmed">
          {job.durations}
        </Text>
        <Text size="xs" c="dimmed">
          10% {length(low, words.units)} · 50% {length(middle, words.units)} · 90%{" "}
          {length(high, words.units)}
        </Text>
      </Group>
      <Box pos="relative" h={HEIGHT}>
        <Box
          pos="absolute"
          left={0}
          right={0}
          bottom={y(low)}
          h={Math.max(1, y(high) - y(low))}
          bg="var(--mantine-color-default-hover)"
          aria-hidden
        />
        <Group gap={2} align="flex-end" h={HEIGHT} wrap="nowrap" pos="relative">
          {ended.map(({ run, ms }) => {
            const when = instant(run.planned_at ?? run.created_at, zone);
            const state = (states as Record<string, string>)[run.state] ?? run.state;
            const text = `#${run.id} · ${when} · ${state} · ${length(ms, words.units)}`;
            return (
              <Link
                key={run.id}
                to={`/runs/${run.id}`}
                title={text}
                aria-label={text}
                style={{
                  flex: "1 1 0",
                  maxWidth: 14,
                  minWidth: 1,
                  height: Math.max(3, y(ms)),
                  background: `var(--mantine-color-${colorOf(run.state)}-6)`,
                  borderRadius: 2,
                }}
              />
            );
          })}
        </Group>
      </Box>
    </Box>
  );
}
