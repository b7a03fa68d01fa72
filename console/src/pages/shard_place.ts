// Where shards stand: in pages of the API, and in rows of the grid.

/** Shards of a page of the grid; shards are paged by their number. */
export const SHARD_PAGE = 1_000;

/** Pages that hold the shards from `first` to `last`. */
export function pagesOf(first: number, last: number): number[] {
  const from = Math.floor(Math.max(0, first) / SHARD_PAGE);
  const to = Math.floor(Math.max(0, last) / SHARD_PAGE);
  return Array.from({ length: to - from + 1 }, (_, index) => from + index);
}

/** Where a key leads from cell `at`, in a grid of `total` cells and `columns` a row. */
export function moved(key: string, at: number, columns: number, total: number): number {
  const steps: Record<string, number> = {
    ArrowRight: at + 1,
    ArrowLeft: at - 1,
    ArrowDown: at + columns,
    ArrowUp: at - columns,
    PageDown: at + 10 * columns,
    PageUp: at - 10 * columns,
    Home: 0,
    End: total - 1,
  };
  return Math.min(total - 1, Math.max(0, steps[key] ?? at));
}
