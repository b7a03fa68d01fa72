// What happened to a run or a shard, as the event log tells it, oldest first.
import { Anchor, Box, Group, Text } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useRef } from "react";
import type { Event } from "../api/client";
import { query } from "../api/queries";
import { useWords } from "../i18n/words";
import { Instant } from "../time/zone";
import { Loaded } from "../ui/loaded";
import { More } from "../ui/parts";
import { State } from "../ui/state";

const ROW = 34;

export function Timeline({
  id,
  shard,
  zone,
  choose,
}: {
  id: string;
  shard?: number;
  zone: string | undefined;
  choose?: (no: number) => void;
}) {
  const { run } = useWords();
  const asked = useInfiniteQuery(query.runEvents(id, shard));
  const items = asked.data?.pages.flatMap((page) => page.items) ?? [];
  const box = useRef<HTMLDivElement>(null);
  const rows = useVirtualizer({
    count: items.length,
    getScrollElement: () => box.current,
    estimateSize: () => ROW,
    overscan: 12,
  });
  return (
    <Loaded asked={asked}>
      {() => (
        <>
          <Box
            ref={box}
            mah={520}
            style={{ overflow: "auto" }}
            tabIndex={0}
            role="region"
            aria-label={run.timeline}
          >
            <Box pos="relative" h={rows.getTotalSize()} miw={640} role="list">
              {rows.getVirtualItems().map((row) => {
                const event = items[row.index];
                return (
                  event && (
                    <Box
                      key={event.seq}
                      role="listitem"
                      pos="absolute"
                      top={row.start}
                      left={0}
                      right={0}
                      h={ROW}
                    >
                      <One event={event} zone={zone} choose={choose} />
                    </Box>
                  )
                );
              })}
            </Box>
          </Box>
          <More asked={asked} word={run.older} />
        </>
      )}
    </Loaded>
  );
}

/** What an event says beyond its kind, in a few words. */
export function detail(event: Pick<Event, "kind" | "cause" | "data">): string {
  const data = event.data as Record<string, unknown>;
  const text = (name: string) =>
    data[name] == null || data[name] === "" ? "" : String(data[name]);
  const parts = {
    run_created: [
      text("total") && `${text("total")} shards`,
      text("waits") && `waits: ${text("waits")}`,
    ],
    run_expanded: [text("total") && `${text("total")} shards`],
    attempt_granted: [
      text("worker"),
      text("checkpoint_seq") !== "0" && text("checkpoint_seq")
        ? `checkpoint ${text("checkpoint_seq")}`
        : "",
    ],
    checkpoint_saved: [
      text("seq") && `#${text("seq")}`,
      text("position"),
      text("done") && `${text("done")} done`,
    ],
    attempt_recalled: [
      text("by") && `run ${text("by")}`,
      text("priority") && `priority ${text("own")} < ${text("priority")}`,
    ],
    attempt_ended: [text("code"), text("message")],
    stop_requested: [text("stop"), text("detail")],
    run_settled: [text("succeeded") && `${text("succeeded")}/${text("total")}`],
    run_reopened: [text("round") && `round ${text("round")}`],
    shard_discarded: [text("by"), text("reason")],
  }[event.kind];
  return [event.cause, ...(parts ?? [])].filter(Boolean).join(" · ");
}

function One({
  event,
  zone,
  choose,
}: {
  event: Event;
  zone: string | undefined;
  choose?: (no: number) => void;
}) {
  const { events } = useWords();
  const no = event.entity === "shard" ? Number(event.id.split("/")[1]) : null;
  return (
    <Group gap="xs" wrap="nowrap" h="100%">
      <Text size="xs" component="div" c="dimmed">
        <Instant at={event.at} zone={zone} />
      </Text>
      <Text size="xs" w={76} ta="right" component="div" style={{ flexShrink: 0 }}>
        {no !== null &&
          (choose ? (
            <Anchor component="button" type="button" size="xs" onClick={() => choose(no)}>
              {no}
              {event.attempt != null && `.${event.attempt}`}
            </Anchor>
          ) : (
            `${no}${event.attempt != null ? `.${event.attempt}` : ""}`
          ))}
      </Text>
      <Text size="sm" style={{ whiteSpace: "nowrap" }} fw={no === null ? 600 : 400}>
        {(events as Record<string, string>)[event.kind] ?? event.kind}
      </Text>
      {event.to && event.from !== event.to && <State state={event.to} />}
      <Text size="xs" c="dimmed" truncate title={detail(event)}>
        {detail(event)}
      </Text>
    </Group>
  );
}
