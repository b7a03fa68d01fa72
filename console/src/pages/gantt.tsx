// A run's shards over time, a bar each: up to 100,000 of them.
//
// Invariants: only the rows in sight are drawn and asked for. A bar is the shard's last attempt; earlier
// ones are counted beside it and told in the shard's own view.
import { Box, Group, SegmentedControl, Text } from "@mantine/core";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useRef, useState } from "react";
import type { Run, Shard } from "../api/client";
import { useWords } from "../i18n/words";
import { length } from "../time/instant";
import { Instant, useInstant } from "../time/zone";
import { Empty } from "../ui/loaded";
import { Section } from "../ui/parts";
import { type Axis, axis, span, ticks } from "./gantt_scale";
import { cellColor, Legend } from "./shard_grid";
import { useShardsInSight } from "./shards_in_sight";

const TICKS = 6;
/** Heights of a row, in pixels: with its words, or many at once. */
const HEIGHTS = { roomy: 22, dense: 7 };

interface Showing {
  run: Run;
  zone: string | undefined;
  choose: (no: number) => void;
}

/** The present, every second while the run goes on. */
function useNow(goes: boolean): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    if (!goes) return;
    const timer = setInterval(() => setNow(Date.now()), 1_000);
    return () => clearInterval(timer);
  }, [goes]);
  return now;
}

export function Gantt({ run, zone, choose }: Showing) {
  const { run: words } = useWords();
  const now = useNow(run.started_at != null && run.ended_at == null);
  const [height, setHeight] = useState<keyof typeof HEIGHTS>("roomy");
  return (
    <Section title={words.gantt} aside={<Legend />}>
      {!run.started_at || run.shards.total === 0 ? (
        <Empty>{run.shards.total === 0 ? words.noShards : words.notBegun}</Empty>
      ) : (
        <>
          <Group justify="space-between" mb="xs">
            <Text size="xs" c="dimmed" component="div">
              {words.ganttHint} <Instant at={run.started_at} zone={zone} />
            </Text>
            <SegmentedControl
              size="xs"
              aria-label={words.rowHeight}
              value={height}
              onChange={(value) => setHeight(value as keyof typeof HEIGHTS)}
              data={[
                { value: "roomy", label: words.roomy },
                { value: "dense", label: words.dense },
              ]}
            />
          </Group>
          <Bars
            key={height}
            run={run}
            zone={zone}
            choose={choose}
            over={axis(run.started_at, run.ended_at ?? now)}
            height={HEIGHTS[height]}
          />
        </>
      )}
    </Section>
  );
}

function Bars({ run, zone, choose, over, height }: Showing & { over: Axis; height: number }) {
  const { run: words, words: common } = useWords();
  const total = run.shards.total;
  const box = useRef<HTMLDivElement>(null);
  const rows = useVirtualizer({
    count: total,
    getScrollElement: () => box.current,
    estimateSize: () => height,
    overscan: 10,
  });
  const seen = rows.getVirtualItems();
  const first = seen[0]?.index ?? 0;
  const shardAt = useShardsInSight(run, first, Math.min(total - 1, seen.at(-1)?.index ?? 0));
  return (
    <div className="gantt">
      <div className="gantt-axis" aria-hidden>
        {ticks(over, TICKS)
          .map((ms) => ({ ms, left: (100 * ms) / (over.to - over.from) }))
          // Words at the very end would be cut.
          .filter(({ left }) => left < 93)
          .map(({ ms, left }) => (
            <span key={ms} style={{ left: `${left}%` }}>
              +{length(ms, common.units)}
            </span>
          ))}
      </div>
      <Box
        ref={box}
        mah={460}
        style={{ overflowY: "auto" }}
        tabIndex={0}
        role="region"
        aria-label={words.gantt}
      >
        <Box pos="relative" h={rows.getTotalSize()} role="list">
          {seen.map((row) => (
            <div
              key={row.index}
              role="listitem"
              className="gantt-row"
              style={{ top: row.start, height }}
            >
              <Bar
                no={row.index}
                shard={shardAt(row.index)}
                over={over}
                zone={zone}
                choose={choose}
                roomy={height === HEIGHTS.roomy}
              />
            </div>
          ))}
        </Box>
      </Box>
    </div>
  );
}

function Bar({
  no,
  shard,
  over,
  zone,
  choose,
  roomy,
}: {
  no: number;
  shard: Shard | undefined;
  over: Axis;
  zone: string | undefined;
  choose: (no: number) => void;
  roomy: boolean;
}) {
  const { run, words, states, shard: of } = useWords();
  const instant = useInstant();
  const begun = shard?.started_at;
  const place = begun ? span(over, begun, shard.ended_at) : null;
  const took = begun
    ? (shard.ended_at ? new Date(shard.ended_at).getTime() : over.to) - new Date(begun).getTime()
    : 0;
  const state = shard && ((states as Record<string, string>)[shard.state] ?? shard.state);
  const says = [
    `${no}: ${state ?? ""}`,
    shard && shard.attempt > 0 && of.attempt(shard.attempt),
    begun && instant(begun, zone),
    begun && length(took, words.units),
  ]
    .filter(Boolean)
    .join(" · ");
  return (
    <button
      type="button"
      id={`bar-${no}`}
      data-state={shard?.state}
      title={says}
      onClick={() => choose(no)}
    >
      <span className="unseen">{says}</span>
      <span className="gantt-no" aria-hidden>
        {roomy && no}
      </span>
      <span className="gantt-track" aria-hidden>
        {place && (
          <span
            className="gantt-bar"
            style={{
              left: `${place.left}%`,
              width: `max(3px, ${place.width}%)`,
              background: cellColor(shard?.state),
            }}
          />
        )}
        {roomy && place && shard && shard.attempt > 1 && (
          <span
            className="gantt-again"
            style={
              place.left > 12
                ? { right: `calc(${100 - place.left}% + 6px)` }
                : { left: `calc(${place.left + place.width}% + 6px)` }
            }
          >
            {run.again(shard.attempt)}
          </span>
        )}
      </span>
    </button>
  );
}
