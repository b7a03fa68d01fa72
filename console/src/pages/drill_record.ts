// The evidence of drills, read in the browser from folders that somebody opened here.
//
// Invariants: nothing is sent anywhere, and nothing of a folder is run: its picture is shown as a picture,
// in which scripts are dead. A folder whose record can't be read is said to be so, not left out.
//
// Not here: judging the evidence anew (`sichen verify --file` does the history).
import { parse } from "yaml";

/** The largest file of a folder that is read, in bytes. */
export const MAX_FILE_BYTES = 256 * 1024 * 1024;
/** The largest record or picture, in bytes. */
const MAX_TEXT_BYTES = 8 * 1024 * 1024;
/** Files that are taken of what was opened. */
export const MAX_FILES = 5_000;

/** A file with its path from the folder that was opened. */
export interface Found {
  path: string;
  file: File;
}

export interface Spread {
  count: number;
  p50_ms: number;
  p99_ms: number;
  max_ms: number;
}

export const SPREADS = ["lateness_calm", "lateness_near_faults", "takeover", "recovery"] as const;
export const COUNTS = ["attempts", "repeats", "refused"] as const;

type Measures = Record<(typeof SPREADS)[number], Spread> & Record<(typeof COUNTS)[number], number>;

/** `record.yaml` of an evidence folder. */
export interface DrillRecord {
  topic: string;
  claim: string;
  baseline_version: string;
  condition: string;
  conditions: Record<string, string>;
  execution: {
    command: string;
    began: string;
    took_ms: number;
    cluster: string;
    faults: string[];
  };
  evidence: Record<string, string>;
  pass_when: string[];
  stop_when: string[];
  observed_result: {
    verdict: "passed" | "failed" | "stopped" | "unfinished";
    stopped?: string | null;
    unfinished?: string | null;
    findings: string[];
    checksum_before: string;
    checksum_after: string;
    checksum_expected: string;
    measures: Measures;
  };
  first_deviation: string | null;
  recovery_replay: string;
  owner: string;
  rollback: string;
  not_covered: string[];
}

export interface Drill {
  /** The folder's path from what was opened. */
  folder: string;
  record: DrillRecord;
  /** The files of the folder by their names in it. */
  files: Map<string, File>;
}

/** A folder with a `record.yaml` that is none. */
export interface Unread {
  folder: string;
  why: string;
}

/** The drills among the files that were opened, by folder. */
export async function drillsOf(found: Found[]): Promise<{ drills: Drill[]; unread: Unread[] }> {
  const drills: Drill[] = [];
  const unread: Unread[] = [];
  const records = found.filter(({ path }) => /(^|\/)record\.yaml$/.test(path));
  for (const { path, file } of records.sort((a, b) => a.path.localeCompare(b.path))) {
    const folder = path.slice(0, -"record.yaml".length);
    const files = new Map(
      found
        .filter((one) => one.path.startsWith(folder))
        .map((one) => [one.path.slice(folder.length), one.file]),
    );
    const shown = folder.replace(/\/$/, "") || "record.yaml";
    try {
      drills.push({ folder: shown, record: recordOf(await textOf(file)), files });
    } catch (error) {
      unread.push({ folder: shown, why: error instanceof Error ? error.message : String(error) });
    }
  }
  return { drills, unread };
}

async function textOf(file: File): Promise<string> {
  if (file.size > MAX_TEXT_BYTES) throw new Error(`${file.size} bytes`);
  return file.text();
}

/** A record as its text has it; throws where it is none. */
export function recordOf(text: string): DrillRecord {
  const read = parse(text) as DrillRecord | null;
  const observed = read?.observed_result;
  const wanted: [string, unknown][] = [
    ["topic", typeof read?.topic === "string"],
    ["conditions", isMap(read?.conditions)],
    ["execution", isMap(read?.execution) && Array.isArray(read?.execution.faults)],
    ["evidence", isMap(read?.evidence)],
    ["pass_when", Array.isArray(read?.pass_when)],
    ["not_covered", Array.isArray(read?.not_covered)],
    ["observed_result", isMap(observed) && Array.isArray(observed?.findings)],
    ["observed_result.measures", isMap(observed?.measures)],
  ];
  const missing = wanted.filter(([, is]) => !is).map(([name]) => name);
  if (read === null || missing.length > 0) throw new Error(`record.yaml: ${missing.join(", ")}`);
  return read;
}

const isMap = (value: unknown) =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** `ok: what had to hold: what was seen` in its parts. */
export function findingOf(text: string, passWhen: string[]) {
  const isOk = text.startsWith("ok:");
  const rest = text.replace(/^(ok|NOT SO):\s*/, "");
  const claim = passWhen.find((one) => rest.startsWith(`${one}: `));
  return claim === undefined
    ? { isOk, claim: rest, seen: "" }
    : { isOk, claim, seen: rest.slice(claim.length + 2) };
}

/** Conditions that are not the same in all records, by name with each one's value. */
export function differing(records: DrillRecord[]): [string, string[]][] {
  const names = new Set(records.flatMap((record) => Object.keys(record.conditions)));
  return [...names]
    .sort()
    .map((name): [string, string[]] => [
      name,
      records.map((record) => String(record.conditions[name] ?? "")),
    ])
    .filter(([, values]) => new Set(values).size > 1);
}

/** What became of a file's digest. `unknown`: this browser reckons none here. */
export type Digest = "same" | "other" | "missing" | "unknown" | "too-large";

/** Whether the files are those of which the record has the digests. */
export async function digestsOf(drill: Drill): Promise<Map<string, Digest>> {
  const told = new Map<string, Digest>();
  for (const [name, wanted] of Object.entries(drill.record.evidence)) {
    told.set(name, await digestOf(drill.files.get(name), String(wanted)));
  }
  return told;
}

async function digestOf(file: File | undefined, wanted: string): Promise<Digest> {
  if (file === undefined) return "missing";
  // Browsers have it on pages that came by TLS or from this machine.
  if (globalThis.crypto?.subtle === undefined) return "unknown";
  if (file.size > MAX_FILE_BYTES) return "too-large";
  const bytes = await crypto.subtle.digest("SHA-256", await file.arrayBuffer());
  const hex = [...new Uint8Array(bytes)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex === wanted ? "same" : "other";
}

/** The picture as an address that an image takes, in which nothing of it runs. */
export async function pictureOf(drill: Drill): Promise<string | null> {
  const file = drill.files.get("timeline.svg");
  if (file === undefined || file.size > MAX_TEXT_BYTES) return null;
  return `data:image/svg+xml;charset=utf-8,${encodeURIComponent(await file.text())}`;
}

/** The checker's verdict beside a record: its outcome, and the promises that were broken. */
export async function verdictOf(
  drill: Drill,
): Promise<{ outcome: string; broken: string[] } | null> {
  const file = drill.files.get("verdict.json");
  if (file === undefined || file.size > MAX_TEXT_BYTES) return null;
  try {
    const read = JSON.parse(await file.text()) as {
      outcome?: unknown;
      violations?: { invariant?: string; promise?: string; detail?: string }[];
    };
    const broken = (read.violations ?? []).map(({ invariant, promise }) =>
      [invariant, promise].filter(Boolean).join(": "),
    );
    return { outcome: String(read.outcome ?? ""), broken };
  } catch {
    return null;
  }
}
