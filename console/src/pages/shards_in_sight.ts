// The shards of a run that are in sight: only the pages that have them are asked for.
import { useQueries } from "@tanstack/react-query";
import type { Run, Shard } from "../api/client";
import { query } from "../api/queries";
import { pagesOf, SHARD_PAGE } from "./shard_place";

/** Finds shards from number `first` to `last` as they come in; undefined until they do. */
export function useShardsInSight(
  run: Run,
  first: number,
  last: number,
): (no: number) => Shard | undefined {
  const pages = pagesOf(first, last);
  const asked = useQueries({ queries: pages.map((page) => query.shards(String(run.id), page)) });
  return (no) => {
    const page = asked[Math.floor(no / SHARD_PAGE) - (pages[0] ?? 0)];
    // The plan step comes before shard 0, so the place in a page is looked for by number.
    const items = page?.data?.items;
    const start = items?.[0]?.no ?? 0;
    return items?.[no - start];
  };
}
