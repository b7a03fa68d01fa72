// A run's shards by number, a coloured cell each: up to 100,000 of them.
//
// Invariants: only the rows in sight are drawn, and only the pages of shards that they need are
// asked for; the pages are found by number, so any place of the grid is one question away.
import { Box, Button, Group, NumberInput, Text } from "@mantine/core";
import { useElementSize } from "@mantine/hooks";
import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, useRef, useState } from "react";
import type { Run } from "../api/client";
import { useWords } from "../i18n/words";
import { Empty } from "../ui/loaded";
import { Section } from "../ui/parts";
import { colorOf } from "../ui/state";
import { moved } from "./shard_place";
import { useShardsInSight } from "./shards_in_sight";

const CELL = 16;

interface Choosing {
  run: Run;
  chosen: number | null;
  choose: (no: number | null) => void;
}

export function ShardGrid({ run, chosen, choose }: Choosing) {
  const { run: words } = useWords();
  return (
    <Section title={words.shards} aside={<Legend />}>
      {run.shards.total === 0 ? (
        <Empty
          action={
            run.shards.open > 0 && (
              <Button size="xs" variant="default" onClick={() => choose(-1)}>
                {words.planStep}
              </Button>
            )
          }
        >
          {words.noShards}
        </Empty>
      ) : (
        <Cells run={run} chosen={chosen} choose={choose} />
      )}
    </Section>
  );
}

function Cells({ run, chosen, choose }: Choosing) {
  const { run: words, states } = useWords();
  const total = run.shards.total;
  const size = useElementSize();
  const box = useRef<HTMLDivElement>(null);
  const columns = Math.max(1, Math.floor((size.width || 320) / CELL));
  const [at, setAt] = useState(chosen !== null && chosen >= 0 ? chosen : 0);
  const rows = useVirtualizer({
    count: Math.ceil(total / columns),
    getScrollElement: () => box.current,
    estimateSize: () => CELL,
    overscan: 4,
  });
  const seen = rows.getVirtualItems();
  const first = (seen[0]?.index ?? 0) * columns;
  const last = Math.min(total - 1, ((seen.at(-1)?.index ?? 0) + 1) * columns - 1);
  const shardAt = useShardsInSight(run, first, last);
  const go = (no: number) => {
    setAt(no);
    rows.scrollToIndex(Math.floor(no / columns));
  };
  const onKey = (event: KeyboardEvent) => {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      return choose(at);
    }
    const next = moved(event.key, at, columns, total);
    if (next === at) return;
    event.preventDefault();
    go(next);
  };
  const name = (no: number) => {
    const state = shardAt(no)?.state;
    return state ? `${no}: ${(states as Record<string, string>)[state] ?? state}` : String(no);
  };
  return (
    <Box ref={size.ref}>
      <Group justify="space-between" align="flex-end" mb="xs">
        <Text size="xs" c="dimmed">
          {words.grid(total)}
        </Text>
        <form
          onSubmit={(event) => {
            event.preventDefault();
            choose(at);
          }}
        >
          <NumberInput
            size="xs"
            w={130}
            label={words.goTo}
            min={0}
            max={total - 1}
            value={at}
            onChange={(value) => {
              const no = Number(value);
              if (Number.isInteger(no) && no >= 0 && no < total) go(no);
            }}
          />
        </form>
      </Group>
      <Box
        ref={box}
        mah={420}
        style={{ overflowY: "auto" }}
        tabIndex={0}
        role="grid"
        aria-label={words.grid(total)}
        aria-rowcount={Math.ceil(total / columns)}
        aria-activedescendant={`shard-${at}`}
        onKeyDown={onKey}
      >
        <Box pos="relative" h={rows.getTotalSize()} role="presentation">
          {seen.map((row) => (
            <Box
              key={row.index}
              role="row"
              aria-rowindex={row.index + 1}
              pos="absolute"
              top={row.start}
              left={0}
              style={{ display: "flex" }}
            >
              {Array.from(
                { length: Math.min(columns, total - row.index * columns) },
                (_, column) => {
                  const no = row.index * columns + column;
                  const state = shardAt(no)?.state;
                  return (
                    // biome-ignore lint/a11y/useKeyWithClickEvents: keys are the grid's
                    // biome-ignore lint/a11y/useFocusableInteractive: the grid has the focus
                    <div
                      key={no}
                      id={`shard-${no}`}
                      role="gridcell"
                      aria-label={name(no)}
                      title={name(no)}
                      data-state={state}
                      data-selected={no === at || undefined}
                      className="grid-cell"
                      style={{ background: cellColor(state) }}
                      onClick={() => {
                        setAt(no);
                        choose(no);
                      }}
                    />
                  );
                },
              )}
            </Box>
          ))}
        </Box>
      </Box>
    </Box>
  );
}

/** The colour of a shard in a state; of one that is not known yet, nearly none. */
export function cellColor(state: string | undefined): string {
  if (state === undefined) return "var(--mantine-color-default-hover)";
  if (state === "scheduled")
    return "light-dark(var(--mantine-color-gray-4), var(--mantine-color-dark-3))";
  if (state === "cancelled")
    return "light-dark(var(--mantine-color-gray-6), var(--mantine-color-gray-7))";
  return `var(--mantine-color-${colorOf(state)}-6)`;
}

export function Legend() {
  const { states, run } = useWords();
  const all = ["scheduled", "running", "retry", "succeeded", "failed", "cancelled"] as const;
  return (
    <Group gap="sm" role="list" aria-label={run.legend}>
      {all.map((state) => (
        <Group key={state} gap={4} role="listitem" wrap="nowrap">
          <Box className="legend-cell" style={{ background: cellColor(state) }} aria-hidden />
          <Text size="xs">{states[state]}</Text>
        </Group>
      ))}
    </Group>
  );
}
