// What the pages ask for, each under its key in the one cache.
//
// Invariants: a key begins with the noun it holds, then the object, so that an event can name all
// that has become stale (`touched.ts`). Nothing but this file and `actions.ts` calls the client.
import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { SHARD_PAGE } from "../pages/shard_place";
import {
  answer,
  type ChangeMade,
  type ChangePage,
  client,
  type Event,
  type StartBackfill,
} from "./client";

/** Rows of a page of a listing. */
const PAGE = 100;
/** Rows of the later pages of a long listing: whoever scrolls on wants many. */
const LATER_PAGE = 500;

/** So many alerts are not asked for every few seconds. */
const MANY_ALERTS = 200;

/** Pages of changes that are looked through for the one before. */
const PAGES_BACK = 10;

const pageSize = (after: string | undefined) => (after === undefined ? PAGE : LATER_PAGE);

export interface JobName {
  namespace: string;
  name: string;
}

export const shownJob = ({ namespace, name }: JobName) =>
  namespace === "default" ? name : `${namespace}/${name}`;

const path = (job: JobName) => ({ path: { namespace: job.namespace, name: job.name } });

export const query = {
  me: () =>
    queryOptions({
      queryKey: ["me"],
      queryFn: ({ signal }) => answer(client.GET("/api/v1/me", { signal })),
      staleTime: 60_000,
    }),
  server: () =>
    queryOptions({
      queryKey: ["server"],
      queryFn: ({ signal }) => answer(client.GET("/api/v1/server", { signal })),
      refetchInterval: 10_000,
    }),
  members: () =>
    queryOptions({
      queryKey: ["members"],
      queryFn: ({ signal }) => answer(client.GET("/api/v1/members", { signal })),
      refetchInterval: 15_000,
    }),
  clock: () =>
    queryOptions({
      queryKey: ["clock"],
      queryFn: ({ signal }) => answer(client.GET("/api/v1/clock", { signal })),
      refetchInterval: 30_000,
    }),
  workers: () =>
    queryOptions({
      queryKey: ["workers"],
      queryFn: ({ signal }) => answer(client.GET("/api/v1/workers", { signal })),
      refetchInterval: 5_000,
    }),
  overview: () =>
    queryOptions({
      queryKey: ["overview"],
      queryFn: ({ signal }) => answer(client.GET("/api/v1/overview", { signal })),
      // Time alone makes jobs due and late.
      refetchInterval: 10_000,
    }),
  alerts: () =>
    queryOptions({
      queryKey: ["alerts"],
      queryFn: ({ signal }) => answer(client.GET("/api/v1/alerts", { signal })),
      // No event tells of them: they are looked for every 10 seconds. There may be thousands, with a
      // hundred jobs each, and all come at once.
      refetchInterval: ({ state }) =>
        (state.data?.items.length ?? 0) > MANY_ALERTS ? 60_000 : 10_000,
    }),
  jobs: (filter: { search?: string; state?: string }) =>
    infiniteQueryOptions({
      queryKey: ["jobs", filter],
      initialPageParam: undefined as string | undefined,
      queryFn: ({ signal, pageParam }) =>
        answer(
          client.GET("/api/v1/jobs", {
            signal,
            params: { query: { ...filter, after: pageParam, limit: pageSize(pageParam) } },
          }),
        ),
      getNextPageParam: (last) => last.next ?? undefined,
    }),
  job: (job: JobName) =>
    queryOptions({
      queryKey: ["job", job.namespace, job.name],
      queryFn: ({ signal }) =>
        answer(client.GET("/api/v1/jobs/{namespace}/{name}", { signal, params: path(job) })),
    }),
  revision: (job: JobName, revision: number) =>
    queryOptions({
      queryKey: ["revision", job.namespace, job.name, revision],
      staleTime: Number.POSITIVE_INFINITY,
      queryFn: ({ signal }) =>
        answer(
          client.GET("/api/v1/jobs/{namespace}/{name}/revisions/{revision}", {
            signal,
            params: { path: { ...path(job).path, revision } },
          }),
        ),
    }),
  next: (job: JobName, count: number) =>
    queryOptions({
      queryKey: ["job", job.namespace, job.name, "next", count],
      queryFn: ({ signal }) =>
        answer(
          client.GET("/api/v1/jobs/{namespace}/{name}/next", {
            signal,
            params: { ...path(job), query: { count } },
          }),
        ),
    }),
  decisions: (job: JobName, from: string) =>
    infiniteQueryOptions({
      queryKey: ["job", job.namespace, job.name, "decisions", from],
      initialPageParam: from,
      queryFn: ({ signal, pageParam }) =>
        answer(
          client.GET("/api/v1/jobs/{namespace}/{name}/decisions", {
            signal,
            params: { ...path(job), query: { from: pageParam, limit: PAGE } },
          }),
        ),
      getNextPageParam: (last) => last.next ?? undefined,
    }),
  preview: (job: JobName, catchUp: boolean) =>
    queryOptions({
      queryKey: ["job", job.namespace, job.name, "preview", catchUp],
      staleTime: 0,
      queryFn: ({ signal }) =>
        answer(
          client.GET("/api/v1/jobs/{namespace}/{name}/preview", {
            signal,
            params: { ...path(job), query: { catch_up: catchUp } },
          }),
        ),
    }),
  backfills: (job: JobName) =>
    infiniteQueryOptions({
      queryKey: ["backfills", job.namespace, job.name],
      initialPageParam: undefined as string | undefined,
      queryFn: ({ signal, pageParam }) =>
        answer(
          client.GET("/api/v1/jobs/{namespace}/{name}/backfills", {
            signal,
            params: { ...path(job), query: { after: pageParam, limit: 20 } },
          }),
        ),
      getNextPageParam: (last) => last.next ?? undefined,
    }),
  backfill: (id: number) =>
    queryOptions({
      queryKey: ["backfill", String(id)],
      queryFn: ({ signal }) =>
        answer(client.GET("/api/v1/backfills/{id}", { signal, params: { path: { id } } })),
    }),
  backfillPreview: (job: JobName, wanted: StartBackfill | null) =>
    queryOptions({
      queryKey: ["job", job.namespace, job.name, "backfill-preview", wanted],
      enabled: wanted !== null,
      retry: false,
      queryFn: ({ signal }) =>
        answer(
          client.POST("/api/v1/jobs/{namespace}/{name}/backfills/preview", {
            signal,
            params: { ...path(job), query: { limit: 100 } },
            body: wanted ?? { from: "", to: "" },
          }),
        ),
    }),
  runs: (filter: { job?: string; state?: string; backfill?: number }) =>
    infiniteQueryOptions({
      queryKey: ["runs", filter],
      initialPageParam: undefined as string | undefined,
      queryFn: ({ signal, pageParam }) =>
        answer(
          client.GET("/api/v1/runs", {
            signal,
            params: { query: { ...filter, after: pageParam, limit: pageSize(pageParam) } },
          }),
        ),
      getNextPageParam: (last) => last.next ?? undefined,
    }),
  run: (id: string) =>
    queryOptions({
      queryKey: ["run", id],
      queryFn: ({ signal }) =>
        answer(client.GET("/api/v1/runs/{id}", { signal, params: { path: { id } } })),
    }),
  explain: (id: string) =>
    queryOptions({
      // Of a wide run it costs the server much more than the run: told less often (`live/gather.ts`).
      queryKey: ["explain", id],
      queryFn: ({ signal }) =>
        answer(client.GET("/api/v1/runs/{id}/explain", { signal, params: { path: { id } } })),
    }),
  runEvents: (id: string, shard?: number) =>
    infiniteQueryOptions({
      queryKey: ["run", id, "events", shard ?? null],
      initialPageParam: undefined as string | undefined,
      queryFn: ({ signal, pageParam }) =>
        answer(
          client.GET("/api/v1/runs/{id}/events", {
            signal,
            params: { path: { id }, query: { shard, after: pageParam, limit: 500 } },
          }),
        ),
      // The last page has a `next` as well, for those who come again.
      getNextPageParam: (last) => (last.items.length < 500 ? undefined : (last.next ?? undefined)),
    }),
  shards: (id: string, page: number) =>
    queryOptions({
      queryKey: ["shards", id, page],
      queryFn: ({ signal }) =>
        answer(
          client.GET("/api/v1/runs/{id}/shards", {
            signal,
            params: {
              path: { id },
              query: { after: String(page * SHARD_PAGE - 1), limit: SHARD_PAGE },
            },
          }),
        ),
    }),
  shard: (id: string, no: number) =>
    queryOptions({
      queryKey: ["shards", id, "one", no],
      queryFn: async ({ signal }) => {
        const page = await answer(
          client.GET("/api/v1/runs/{id}/shards", {
            signal,
            params: { path: { id }, query: { after: String(no - 1), limit: 1 } },
          }),
        );
        return page.items.find((shard) => shard.no === no) ?? null;
      },
    }),
  attempts: (id: string, no: number) =>
    queryOptions({
      queryKey: ["attempts", id, no],
      queryFn: ({ signal }) =>
        answer(
          client.GET("/api/v1/runs/{id}/shards/{no}/attempts", {
            signal,
            params: { path: { id, no } },
          }),
        ),
    }),
  deadLetters: (filter: { job?: string; code?: string }) =>
    infiniteQueryOptions({
      queryKey: ["dead-letters", filter],
      initialPageParam: undefined as string | undefined,
      queryFn: ({ signal, pageParam }) =>
        answer(
          client.GET("/api/v1/dead-letters", {
            signal,
            params: { query: { ...filter, after: pageParam, limit: PAGE } },
          }),
        ),
      getNextPageParam: (last) => last.next ?? undefined,
    }),
  calendars: () =>
    infiniteQueryOptions({
      queryKey: ["calendars"],
      initialPageParam: undefined as string | undefined,
      queryFn: ({ signal, pageParam }) =>
        answer(
          client.GET("/api/v1/calendars", {
            signal,
            params: { query: { after: pageParam, limit: PAGE } },
          }),
        ),
      getNextPageParam: (last) => last.next ?? undefined,
    }),
  calendar: (name: JobName, version?: number) =>
    queryOptions({
      queryKey: ["calendar", name.namespace, name.name, version ?? null],
      queryFn: ({ signal }) =>
        answer(
          client.GET("/api/v1/calendars/{namespace}/{name}", {
            signal,
            params: { ...path(name), query: { version } },
          }),
        ),
    }),
  capacities: () =>
    infiniteQueryOptions({
      queryKey: ["capacities"],
      initialPageParam: undefined as string | undefined,
      queryFn: ({ signal, pageParam }) =>
        answer(
          client.GET("/api/v1/capacities", {
            signal,
            params: { query: { after: pageParam, limit: PAGE } },
          }),
        ),
      getNextPageParam: (last) => last.next ?? undefined,
      // Grants and ends of attempts change who holds it, and no event says so of the capacity.
      refetchInterval: 5_000,
    }),
  capacity: (name: string) =>
    queryOptions({
      queryKey: ["capacity", name],
      queryFn: ({ signal }) =>
        answer(client.GET("/api/v1/capacities/{name}", { signal, params: { path: { name } } })),
      refetchInterval: 5_000,
    }),
  namespaces: () =>
    infiniteQueryOptions({
      queryKey: ["namespaces"],
      initialPageParam: undefined as string | undefined,
      queryFn: ({ signal, pageParam }) =>
        answer(
          client.GET("/api/v1/namespaces", {
            signal,
            params: { query: { after: pageParam, limit: PAGE } },
          }),
        ),
      getNextPageParam: (last) => last.next ?? undefined,
      refetchInterval: 5_000,
    }),
  tokens: () =>
    queryOptions({
      queryKey: ["tokens"],
      queryFn: ({ signal }) => answer(client.GET("/api/v1/tokens", { signal })),
    }),
  changes: (filter: { actor?: string; entity?: string }) =>
    infiniteQueryOptions({
      queryKey: ["changes", filter],
      initialPageParam: undefined as string | undefined,
      queryFn: ({ signal, pageParam }) =>
        answer(
          client.GET("/api/v1/changes", {
            signal,
            params: { query: { ...filter, after: pageParam, limit: pageSize(pageParam) } },
          }),
        ),
      getNextPageParam: (last) => last.next ?? undefined,
    }),
  /** The change with that number in the log, or null if it is none, or not for this token. */
  change: (seq: number) =>
    queryOptions({
      queryKey: ["change", seq],
      staleTime: Number.POSITIVE_INFINITY,
      queryFn: async ({ signal }) => {
        const page = await answer(
          client.GET("/api/v1/changes", {
            signal,
            params: { query: { after: String(seq + 1), limit: 1 } },
          }),
        );
        return page.items.find(({ event }) => event.seq === seq) ?? null;
      },
    }),
  /** The last change of that kind before `event` to the same object; null if none is near. */
  changeBefore: (event: Event) =>
    queryOptions({
      queryKey: ["change", event.seq, "before"],
      staleTime: Number.POSITIVE_INFINITY,
      queryFn: async ({ signal }) => {
        let after: string | undefined = String(event.seq);
        for (let page = 0; page < PAGES_BACK && after !== undefined; page++) {
          const told: ChangePage = await answer(
            client.GET("/api/v1/changes", {
              signal,
              params: { query: { entity: event.entity, after, limit: LATER_PAGE } },
            }),
          );
          const is = ({ event: one }: ChangeMade) => one.id === event.id && one.kind === event.kind;
          const found = told.items.find(is);
          if (found) return found;
          after = told.next ?? undefined;
        }
        return null;
      },
    }),
  /** All planned times of a range, newest first, with what is recorded of each. */
  planned: (job: JobName, range: { from: string; to: string }) =>
    infiniteQueryOptions({
      queryKey: ["job", job.namespace, job.name, "planned", range],
      initialPageParam: undefined as string | undefined,
      retry: false,
      queryFn: ({ signal, pageParam }) =>
        answer(
          client.POST("/api/v1/jobs/{namespace}/{name}/backfills/preview", {
            signal,
            params: { ...path(job), query: { after: pageParam, limit: LATER_PAGE } },
            body: { ...range, mode: "only_missing", order: "newest" },
          }),
        ),
      getNextPageParam: (last) => last.next ?? undefined,
    }),
  decisionsIn: (job: JobName, from: string) =>
    queryOptions({
      queryKey: ["job", job.namespace, job.name, "decisions-in", from],
      queryFn: ({ signal }) =>
        answer(
          client.GET("/api/v1/jobs/{namespace}/{name}/decisions", {
            signal,
            params: { ...path(job), query: { from, limit: 1_000 } },
          }),
        ),
    }),
  work: (session: number) =>
    queryOptions({
      queryKey: ["workers", session, "shards"],
      queryFn: ({ signal }) =>
        answer(
          client.GET("/api/v1/workers/{session}/shards", { signal, params: { path: { session } } }),
        ),
      refetchInterval: 5_000,
    }),
};
