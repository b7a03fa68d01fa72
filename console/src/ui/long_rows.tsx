// A table of many thousand rows: those in sight are drawn, and the next ones are asked for before
// one's eyes get there.
//
// Plain elements instead of the library's: dozens of rows are drawn in each frame while one scrolls.
//
// Invariants: columns keep their widths whatever rows are drawn. A listing of which much has been read
// is not read anew with every news (`live/gather.ts`): it says from when it is, and a button reads it
// again from its beginning.
import { Box, Button, Group, Loader, Text } from "@mantine/core";
import { type QueryKey, useQueryClient } from "@tanstack/react-query";
import { useVirtualizer } from "@tanstack/react-virtual";
import { memo, type ReactNode, useEffect, useRef } from "react";
import { useWords } from "../i18n/words";
import { isLong } from "../live/gather";
import { Instant } from "../time/zone";

/** Rows before the end at which more are asked for. */
const AHEAD = 60;

export interface Column {
  head: ReactNode;
  /** Its part of the width, beside the others. */
  part: number;
}

interface Asked {
  hasNextPage: boolean;
  isFetchingNextPage: boolean;
  isFetchNextPageError: boolean;
  dataUpdatedAt: number;
  data: { pages: unknown[] } | undefined;
  fetchNextPage: () => unknown;
}

export function LongRows<T>({
  label,
  columns,
  rows,
  keyOf,
  row,
  asked,
  queryKey,
  height,
}: {
  label: string;
  columns: Column[];
  rows: T[];
  keyOf: (row: T) => string | number;
  /** The cells of a row; the same function at each drawing, or every row is drawn anew. */
  row: (row: T) => ReactNode;
  asked: Asked;
  queryKey: QueryKey;
  /** The usual height of a row, in pixels. */
  height: number;
}) {
  const { words } = useWords();
  const box = useRef<HTMLDivElement>(null);
  const drawn = useVirtualizer({
    count: rows.length,
    getScrollElement: () => box.current,
    estimateSize: () => height,
    getItemKey: (index) => keyOf(rows[index] as T),
    overscan: 8,
  });
  const seen = drawn.getVirtualItems();
  const first = seen[0];
  const last = seen.at(-1);
  const { hasNextPage, isFetchingNextPage, isFetchNextPageError, fetchNextPage } = asked;
  const wanted = hasNextPage && (last?.index ?? 0) >= rows.length - AHEAD;
  useEffect(() => {
    if (wanted && !isFetchingNextPage && !isFetchNextPageError) fetchNextPage();
  }, [wanted, isFetchingNextPage, isFetchNextPageError, rows.length]);
  const all = columns.reduce((sum, { part }) => sum + part, 0);
  const above = first?.start ?? 0;
  const below = drawn.getTotalSize() - (last?.end ?? 0);
  return (
    <>
      <Box ref={box} className="long-rows" tabIndex={0} role="region" aria-label={label}>
        <table
          aria-label={label}
          aria-rowcount={hasNextPage ? -1 : rows.length + 1}
          style={{ minWidth: all }}
        >
          <colgroup>
            {columns.map(({ part }, index) => (
              <col key={index} style={{ width: `${(100 * part) / all}%` }} />
            ))}
          </colgroup>
          <thead>
            <tr>
              {columns.map(({ head }, index) => (
                <th key={index}>{head}</th>
              ))}
            </tr>
          </thead>
          <tbody>
            {above > 0 && <Room height={above} columns={columns.length} />}
            {seen.map((item) => (
              <tr
                key={item.key}
                ref={drawn.measureElement}
                data-index={item.index}
                aria-rowindex={item.index + 2}
              >
                <Cells row={rows[item.index] as T} draw={row} />
              </tr>
            ))}
            {below > 0 && <Room height={below} columns={columns.length} />}
          </tbody>
        </table>
      </Box>
      <Group justify="space-between" mt="xs" mih={30}>
        <Group gap="xs">
          <Text size="xs" c="dimmed" data-loaded={rows.length}>
            {hasNextPage ? words.shownSoFar(rows.length) : words.shownAll(rows.length)}
          </Text>
          {isFetchingNextPage && <Loader size="xs" />}
          {isFetchNextPageError && <Again go={() => void fetchNextPage()} />}
        </Group>
        {isLong(asked.data) && (
          <Stale at={asked.dataUpdatedAt} queryKey={queryKey} top={() => drawn.scrollToOffset(0)} />
        )}
      </Group>
    </>
  );
}

/** A row's cells, drawn anew only when the row is another. */
const Cells = memo(function Cells<T>({ row, draw }: { row: T; draw: (row: T) => ReactNode }) {
  return <>{draw(row)}</>;
}) as <T>(given: { row: T; draw: (row: T) => ReactNode }) => ReactNode;

/** Room for rows that are not drawn. */
function Room({ height, columns }: { height: number; columns: number }) {
  return (
    <tr aria-hidden style={{ height }}>
      <td colSpan={columns} style={{ padding: 0 }} />
    </tr>
  );
}

function Again({ go }: { go: () => void }) {
  const { state } = useWords();
  return (
    <Button size="compact-xs" variant="default" onClick={go}>
      {state.retry}
    </Button>
  );
}

function Stale({ at, queryKey, top }: { at: number; queryKey: QueryKey; top: () => void }) {
  const { words } = useWords();
  const cache = useQueryClient();
  return (
    <Group gap="xs">
      <Text size="xs" c="dimmed" component="div">
        {words.asOf} <Instant at={new Date(at).toISOString()} />
      </Text>
      <Button
        size="compact-xs"
        variant="default"
        onClick={() => {
          top();
          void cache.resetQueries({ queryKey, exact: true });
        }}
      >
        {words.readAnew}
      </Button>
    </Group>
  );
}
