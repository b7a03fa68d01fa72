// A job's document as text, field by field: what a form shows and changes.
//
// Invariants: a change of one field leaves all others, their order and the comments as they were typed.
// Text that is not one job's document has no fields.
import { type Document, isMap, isScalar, parseAllDocuments, parseDocument } from "yaml";

export type Path = readonly (string | number)[];

/** The document in `text`, if it is one job's and can be read. */
export function jobIn(text: string): Document.Parsed | null {
  const all = parseAllDocuments(text);
  if (!Array.isArray(all) || all.length !== 1) return null;
  const [only] = all;
  if (!only || only.errors.length > 0 || !isMap(only.contents)) return null;
  return only.get("kind") === "Job" ? (only as Document.Parsed) : null;
}

/** The value at `path`, as plain data; undefined if there is none. */
export function valueAt(document: Document.Parsed, path: Path): unknown {
  const found: unknown = document.getIn(path);
  return found !== null && typeof found === "object" && "toJSON" in found
    ? (found as { toJSON: () => unknown }).toJSON()
    : found;
}

/** Sets a value; one word in the place of another is quoted and commented as that was. */
function put(document: Document.Parsed, path: Path, value: unknown) {
  // An empty word where a map is wanted, such as `retry:` alone, is none yet.
  for (let depth = 1; depth < path.length; depth++) {
    const above = path.slice(0, depth);
    if (isScalar(document.getIn(above, true))) document.deleteIn(above);
  }
  const there: unknown = document.getIn(path, true);
  if (isScalar(there) && (value === null || typeof value !== "object")) there.value = value;
  else document.setIn(path, document.createNode(value));
}

/** The text with `value` at `path`; undefined takes it out, and what it alone was in. */
export function withValue(text: string, path: Path, value: unknown): string {
  const document = parseDocument(text);
  if (value !== undefined) {
    put(document, path, value);
    return document.toString({ lineWidth: 100 });
  }
  let gone = path;
  if (!document.hasIn(gone)) return text;
  document.deleteIn(gone);
  // A map that has become empty says nothing, but `spec` and what is above it must be there.
  for (gone = gone.slice(0, -1); gone.length > 1; gone = gone.slice(0, -1)) {
    const parent: unknown = document.getIn(gone);
    if (!isMap(parent) || parent.items.length > 0) break;
    document.deleteIn(gone);
  }
  return document.toString({ lineWidth: 100 });
}

/** How a schedule of the document says when, where the form knows that way. */
export const WAYS = ["cron", "every", "at", "after"] as const;
export type Way = (typeof WAYS)[number];

export interface Schedule {
  /** Null for one that the form does not know. */
  way: Way | null;
  value: string;
}

export function schedulesOf(document: Document.Parsed): Schedule[] {
  const given = valueAt(document, ["spec", "schedules"]);
  if (!Array.isArray(given)) return [];
  return given.map((one: unknown) => {
    const entry = (one ?? {}) as Record<string, unknown>;
    const way = WAYS.find((name) => typeof entry[name] === "string") ?? null;
    return { way, value: way === null ? "" : String(entry[way]) };
  });
}

/** The text with another way or value of the schedule at `index`; what else it says stays. */
export function withSchedule(text: string, index: number, before: Way, after: Schedule): string {
  const place = ["spec", "schedules", index];
  if (after.way === null) return text;
  if (after.way === before) return withValue(text, [...place, after.way], after.value);
  const document = parseDocument(text);
  document.deleteIn([...place, before]);
  document.setIn([...place, after.way], after.value);
  return document.toString({ lineWidth: 100 });
}

/** The text with one more schedule. */
export function withMore(text: string): string {
  const document = parseDocument(text);
  const fresh = document.createNode({ cron: "0 3 * * *" });
  if (document.hasIn(["spec", "schedules"])) document.addIn(["spec", "schedules"], fresh);
  else document.setIn(["spec", "schedules"], document.createNode([{ cron: "0 3 * * *" }]));
  return document.toString({ lineWidth: 100 });
}
