// What the pages do to the server: one function an action.
//
// Not here: asking the user first (`ui/confirm.tsx`).
import {
  answer,
  client,
  type NewToken,
  type ResizeCapacity,
  type SetNamespace,
  type StartBackfill,
} from "./client";
import type { JobName } from "./queries";

const path = (job: JobName) => ({ path: { namespace: job.namespace, name: job.name } });

/** What an edit goes by. */
export type JobRevision = { uid: string; revision: number };

/** Documents go as they were typed: the server reads YAML and JSON, and counts lines. */
const asTyped = { bodySerializer: (body: unknown) => String(body) };

export const act = {
  /** With `of`, only if that revision of the job is still the one in force. */
  apply: (text: string, of?: JobRevision) =>
    answer(
      client.POST("/api/v1/jobs:apply", {
        params: { header: { "If-Match": of && `"${of.uid}.${of.revision}"` } },
        body: text as never,
        headers: { "Content-Type": "application/yaml" },
        ...asTyped,
      }),
    ),
  validate: (text: string) =>
    answer(
      client.POST("/api/v1/jobs:validate", {
        body: text as never,
        headers: { "Content-Type": "application/yaml" },
        ...asTyped,
      }),
    ),
  readForeign: (
    text: string,
    query: { from: string; time_zone?: string; namespace?: string; pool?: string },
  ) =>
    answer(
      client.POST("/api/v1/jobs:import", {
        params: { query },
        body: text as never,
        headers: { "Content-Type": "text/plain" },
        ...asTyped,
      }),
    ),
  pause: (job: JobName) =>
    answer(client.POST("/api/v1/jobs/{namespace}/{name}/pause", { params: path(job) })),
  resume: (job: JobName, catchUp: boolean) =>
    answer(
      client.POST("/api/v1/jobs/{namespace}/{name}/resume", {
        params: { ...path(job), query: { catch_up: catchUp } },
      }),
    ),
  remove: (job: JobName) =>
    answer(client.DELETE("/api/v1/jobs/{namespace}/{name}", { params: path(job) })),
  start: (
    job: JobName,
    wanted: { key?: string; planned_at?: string; parameters?: Record<string, never> },
  ) =>
    answer(
      client.POST("/api/v1/jobs/{namespace}/{name}/runs", { params: path(job), body: wanted }),
    ),
  cancelRun: (id: string) =>
    answer(client.POST("/api/v1/runs/{id}/cancel", { params: { path: { id } } })),
  retryRun: (id: string, shards?: number[]) =>
    answer(
      client.POST("/api/v1/runs/{id}/retry", {
        params: { path: { id } },
        body: shards ? { shards } : {},
      }),
    ),
  discard: (id: string, shards: number[], reason: string, by: string) =>
    answer(
      client.POST("/api/v1/runs/{id}/discard", {
        params: { path: { id } },
        body: { shards, reason, by },
      }),
    ),
  startBackfill: (job: JobName, wanted: StartBackfill) =>
    answer(
      client.POST("/api/v1/jobs/{namespace}/{name}/backfills", {
        params: path(job),
        body: wanted,
      }),
    ),
  turnBackfill: (id: number, turn: "pause" | "resume" | "cancel") => {
    const params = { path: { id } };
    switch (turn) {
      case "pause":
        return answer(client.POST("/api/v1/backfills/{id}/pause", { params }));
      case "resume":
        return answer(client.POST("/api/v1/backfills/{id}/resume", { params }));
      case "cancel":
        return answer(client.POST("/api/v1/backfills/{id}/cancel", { params }));
    }
  },
  resizeCapacity: (name: string, limits: ResizeCapacity) =>
    answer(
      client.POST("/api/v1/capacities/{name}/resize", { params: { path: { name } }, body: limits }),
    ),
  removeCapacity: (name: string) =>
    answer(client.DELETE("/api/v1/capacities/{name}", { params: { path: { name } } })),
  setNamespace: (name: string, change: SetNamespace) =>
    answer(client.POST("/api/v1/namespaces/{name}", { params: { path: { name } }, body: change })),
  makeToken: (wanted: NewToken) => answer(client.POST("/api/v1/tokens", { body: wanted })),
  revokeToken: (token: string) =>
    answer(client.DELETE("/api/v1/tokens/{token}", { params: { path: { token } } })),
  acceptClock: () => answer(client.POST("/api/v1/clock/accept", {})),
};

/** A chunk of what an attempt's process wrote. */
export interface Chunk {
  /** Where its first byte stands. */
  offset: number;
  bytes: Uint8Array;
  next: number;
  /** Where the stream ends at present. */
  end: number;
  ended: boolean;
  skipped: number;
  worker: string;
}

/** At most `limit` bytes of an attempt's output from `offset` on. */
export async function readOutput(
  id: string,
  no: number,
  attempt: number,
  stream: "stdout" | "stderr",
  offset: number,
  limit?: number,
): Promise<Chunk> {
  let headers = new Headers();
  const bytes = await answer(
    client
      .GET("/api/v1/runs/{id}/shards/{no}/attempts/{attempt}/output", {
        params: { path: { id, no, attempt }, query: { stream, offset, limit } },
        parseAs: "arrayBuffer",
      })
      .then((told) => {
        headers = told.response.headers;
        return told as { data?: ArrayBuffer; error?: unknown; response: Response };
      }),
  );
  const number = (name: string) => Number(headers.get(name) ?? 0);
  return {
    bytes: new Uint8Array(bytes),
    offset: number("sichen-offset"),
    next: number("sichen-next"),
    end: number("sichen-end"),
    ended: headers.get("sichen-ended") === "true",
    skipped: number("sichen-skipped"),
    worker: headers.get("sichen-worker") ?? "",
  };
}
