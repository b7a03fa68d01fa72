import { QueryClient, QueryObserver } from "@tanstack/react-query";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { gather, isLong, LATER, SOON } from "./gather";

const run = { entity: "run", id: "7" };
const stops: (() => void)[] = [];

/** A cache with one page that shows `queryKey`, each of whose reads takes `takes` milliseconds. */
function page(cache: QueryClient, queryKey: string[], takes: number) {
  const told = { begun: 0, given: 0, shown: 0 };
  const observer = new QueryObserver(cache, {
    queryKey,
    queryFn: ({ signal }) => {
      const number = ++told.begun;
      signal.addEventListener("abort", () => told.given++);
      return new Promise<number>((done) => setTimeout(() => done(number), takes));
    },
    staleTime: Number.POSITIVE_INFINITY,
  });
  stops.push(
    observer.subscribe((result) => {
      told.shown = result.data ?? 0;
    }),
  );
  return told;
}

beforeEach(() => vi.useFakeTimers());
afterEach(() => {
  for (const stop of stops.splice(0)) stop();
  vi.useRealTimers();
});

describe("news", () => {
  it("of one object is told soon, of listings less often", async () => {
    const cache = new QueryClient();
    const one = page(cache, ["run", "7"], 10);
    const all = page(cache, ["runs", "{}"], 10);
    const other = page(cache, ["run", "8"], 10);
    await vi.advanceTimersByTimeAsync(100);
    const news = gather(cache);
    // 30 seconds of steady news.
    for (let beat = 0; beat < 300; beat++) {
      news(run);
      await vi.advanceTimersByTimeAsync(100);
    }
    expect(one.begun).toBeGreaterThan(1 + 30_000 / (SOON + 200));
    expect(all.begun).toBeGreaterThan(1 + 30_000 / (LATER + 200) - 1);
    expect(all.begun).toBeLessThanOrEqual(1 + 30_000 / LATER);
    expect(other.begun).toBe(1);
  });

  it("gives up no read in flight, so a slow page is shown however steady it is", async () => {
    const cache = new QueryClient();
    const slow = page(cache, ["run", "7"], 2_000);
    const news = gather(cache);
    for (let beat = 0; beat < 100; beat++) {
      news(run);
      await vi.advanceTimersByTimeAsync(100);
    }
    expect(slow.given).toBe(0);
    expect(slow.shown).toBeGreaterThanOrEqual(3);
  });

  it("that comes while its page is read is read afterwards, and then there is quiet", async () => {
    const cache = new QueryClient();
    const slow = page(cache, ["run", "7"], 2_000);
    await vi.advanceTimersByTimeAsync(2_500);
    const news = gather(cache);
    news(run);
    await vi.advanceTimersByTimeAsync(1_000);
    expect(slow.begun).toBe(2);
    news(run);
    await vi.advanceTimersByTimeAsync(10_000);
    expect([slow.begun, slow.shown]).toEqual([3, 3]);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(slow.begun).toBe(3);
  });

  it("does not read a listing anew of which much has been read", async () => {
    expect([isLong(undefined), isLong({ pages: [1, 2, 3] }), isLong({ items: [] })]).toEqual([
      false,
      false,
      false,
    ]);
    const cache = new QueryClient();
    let reads = 0;
    const observer = new QueryObserver(cache, {
      queryKey: ["runs", "{}"],
      queryFn: () => Promise.resolve({ pages: ++reads === 1 ? [1, 2, 3, 4] : [] }),
      staleTime: Number.POSITIVE_INFINITY,
    });
    stops.push(observer.subscribe(() => {}));
    await vi.advanceTimersByTimeAsync(100);
    gather(cache)(run);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(reads).toBe(1);
  });
});
