// The one way to the server: a client whose types come from the API's description.
//
// Invariants: a token goes into a header and nowhere else; an answer 401 ends the session.
import createClient from "openapi-fetch";
import { session } from "../session/token";
import type { components, paths } from "./schema";

type Schemas = components["schemas"];
export type Job = Schemas["Job"];
export type Run = Schemas["Run"];
export type Shard = Schemas["Shard"];
export type Attempt = Schemas["Attempt"];
export type Worker = Schemas["Worker"];
export type Event = Schemas["Event"];
export type Decision = Schemas["Decision"];
export type Backfill = Schemas["Backfill"];
export type BackfillInstant = Schemas["BackfillInstant"];
export type BackfillPreview = Schemas["BackfillPreview"];
export type StartBackfill = Schemas["StartBackfill"];
export type Preview = Schemas["Preview"];
export type DeadLetter = Schemas["DeadLetter"];
export type Problem = Schemas["Problem"];
export type ProblemAt = Schemas["ProblemAt"];
export type Calendar = Schemas["Calendar"];
export type Overview = Schemas["Overview"];
export type Capacity = Schemas["Capacity"];
export type ResizeCapacity = Schemas["ResizeCapacity"];
export type Namespace = Schemas["Namespace"];
export type SetNamespace = Schemas["SetNamespace"];
export type Clock = Schemas["Clock"];
export type ChangePage = Schemas["ChangePage"];
export type ChangeMade = Schemas["ChangeMade"];
export type Imported = Schemas["Imported"];
export type ImportedJob = Schemas["ImportedJob"];
export type Token = Schemas["Token"];
export type Alert = Schemas["Alert"];
export type Alerts = Schemas["Alerts"];
export type NewToken = Schemas["NewToken"];

/** Why a request was not carried out: the server's words, or that there was no answer. */
export class Refused extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly problems: ProblemAt[] = [],
  ) {
    super(message);
  }

  /** Whether there was no answer at all. */
  get isAway(): boolean {
    return this.status === 0;
  }
}

export const client = createClient<paths>({ baseUrl: window.location.origin });

client.use({
  onRequest({ request }) {
    for (const [name, value] of Object.entries(session.headers())) request.headers.set(name, value);
    return request;
  },
  onResponse({ response }) {
    if (response.status === 401) session.end("refused");
    return response;
  },
});

/** What openapi-fetch answers with, as a value or a thrown [`Refused`]. */
export async function answer<T>(
  asked: Promise<{ data?: T; error?: unknown; response: Response }>,
): Promise<T> {
  let told: { data?: T; error?: unknown; response: Response };
  try {
    told = await asked;
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Refused(0, "", error instanceof Error ? error.message : String(error));
  }
  if (told.response.ok) return told.data as T;
  const problem = told.error as Partial<Problem> | undefined;
  const text = problem?.detail ?? told.response.statusText;
  throw new Refused(told.response.status, problem?.code ?? "", text, problem?.problems ?? []);
}
