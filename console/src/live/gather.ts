// What events touch, gathered for a while before the cache hears of it.
//
// Invariants: a page of one object is told soon, listings and counts less often, since one read of
// them costs the server more. A read in flight is never given up for news, or steady news would keep
// a slow page from ever being shown; what it reads is read once more when it is done. A listing of which
// many pages were read is not read anew for news: whoever looks at it is told from when it is.
import type { QueryClient, QueryKey } from "@tanstack/react-query";
import type { Event } from "../api/client";
import { touched } from "../api/touched";

/** How long news of one object is gathered, in milliseconds. */
export const SOON = 400;
/** How long news of listings and counts is gathered, in milliseconds. */
export const LATER = 3_000;

/** The nouns whose keys name one object, or belong to one. */
const OBJECTS: ReadonlySet<unknown> = new Set(["run", "shards", "attempts", "backfill"]);

/** Collects what events touch and tells the cache in one go. */
export function gather(cache: QueryClient): (event: Pick<Event, "entity" | "id">) => void {
  const objects = pile(cache, SOON);
  const listings = pile(cache, LATER);
  return (event) => {
    for (const key of touched(event)) (OBJECTS.has(key[0]) ? objects : listings)(key);
  };
}

function pile(cache: QueryClient, wait: number): (key: QueryKey) => void {
  const stale = new Map<string, QueryKey>();
  let waiting = false;
  const tell = () => {
    waiting = false;
    for (const [name, queryKey] of stale) {
      // What a read in flight brings may be older than the news: its turn comes again.
      if (cache.isFetching({ queryKey }) === 0) stale.delete(name);
      const idle = { queryKey, predicate: isIdle };
      void cache.invalidateQueries(idle, { cancelRefetch: false });
    }
    if (stale.size > 0) wake();
  };
  const wake = () => {
    if (waiting) return;
    waiting = true;
    setTimeout(tell, wait);
  };
  return (key) => {
    stale.set(JSON.stringify(key), key);
    wake();
  };
}

/** Pages of a listing that are read anew with news; one of which more has been read is left alone. */
const SHORT = 3;

/** Whether so much of a listing has been read that reading all of it again is not for news to ask. */
export function isLong(data: unknown): boolean {
  const pages = (data as { pages?: unknown } | undefined)?.pages;
  return Array.isArray(pages) && pages.length > SHORT;
}

const isIdle = (query: { state: { fetchStatus: string; data: unknown } }) =>
  query.state.fetchStatus !== "fetching" && !isLong(query.state.data);
