// A run's shards by number, a coloured cell each: up to 100,000 of them.
//
// Invariants: only the rows in sight are drawn, and only the pages of shards that they need are
// asked for; the pages are found by number, so any place of the grid is one question away.
import { Box, Button, Group, NumberInput, Text } from "@mantine/core";
import { useElementSize } from "@mantine/hooks";
import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, type MouseEvent, memo, useRef, useState } from "react";
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
  const { run: words } = useWords();
  const total = run.shards.total;
  const size = useElementSize();
  const box = useRef<HTMLDivElement>(null);
  const columns = Math.max(1, Math.floor((size.width || 320) / CELL));
  const [at, setAt] = useState(chosen !== null && chosen >= 0 ? chosen : 0);
  const rows = useVirtualizer({
    count: Math.ceil(total / columns),
    getScrollElement: () => box.current,
    estimateSize: () => CELL,
    overscan: 2,
  });
  const seen = rows.getVirtualItems();
  // Rows that come by while one scrolls are painted as one piece each, and become cells when it is still.
  const drawn = useRef<ReadonlySet<number>>(new Set());
  const before = drawn.current;
  const isPainted = (index: number) => rows.isScrolling && !before.has(index);
  drawn.current = new Set(seen.map((row) => row.index).filter((index) => !isPainted(index)));
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
  const onClick = (event: MouseEvent<HTMLElement>) => {
    const cell = (event.target as HTMLElement).closest("[data-no]");
    if (cell === null) return;
    const no = Number(cell.getAttribute("data-no"));
    setAt(no);
    choose(no);
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
        onClick={onClick}
      >
        <Box pos="relative" h={rows.getTotalSize()} role="presentation">
          {seen.map((row) => {
            const from = row.index * columns;
            const count = Math.min(columns, total - from);
            const states = Array.from({ length: count }, (_, at) => shardAt(from + at)?.state);
            if (isPainted(row.index)) {
              return <Strip key={row.index} top={row.start} states={states} />;
            }
            return (
              <Row
                key={row.index}
                index={row.index}
                top={row.start}
                from={from}
                states={states.join()}
                selected={at >= from && at < from + count ? at : null}
              />
            );
          })}
        </Box>
      </Box>
    </Box>
  );
}

/** A row as one picture in the colours of its cells. */
function Strip({ top, states }: { top: number; states: (string | undefined)[] }) {
  const stops: string[] = [];
  let from = 0;
  for (let at = 1; at <= states.length; at++) {
    if (at < states.length && states[at] === states[from]) continue;
    stops.push(`${cellColor(states[from])} ${from * CELL}px ${at * CELL}px`);
    from = at;
  }
  return (
    <div
      aria-hidden
      className="grid-strip"
      style={{
        top,
        width: states.length * CELL,
        backgroundImage: `linear-gradient(to right, ${stops.join(", ")})`,
      }}
    />
  );
}

/** A row of cells, drawn anew only when one of its states is another: thousands are in sight at once. */
const Row = memo(function Row({
  index,
  top,
  from,
  states,
  selected,
}: {
  index: number;
  top: number;
  from: number;
  /** The states of its cells, with commas between them; of one that is not known yet, nothing. */
  states: string;
  selected: number | null;
}) {
  const { states: words } = useWords();
  return (
    // biome-ignore lint/a11y/useFocusableInteractive: the grid has the focus
    <div role="row" aria-rowindex={index + 1} className="grid-row" style={{ top }}>
      {states.split(",").map((state, column) => {
        const no = from + column;
        const word = (words as Record<string, string>)[state] ?? state;
        return (
          // biome-ignore lint/a11y/useFocusableInteractive: the grid has the focus
          <div
            key={no}
            id={`shard-${no}`}
            role="gridcell"
            title={state === "" ? String(no) : `${no}: ${word}`}
            data-no={no}
            data-state={state || undefined}
            data-selected={no === selected || undefined}
            className="grid-cell"
            style={{ background: cellColor(state || undefined) }}
          />
        );
      })}
    </div>
  );
});

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
