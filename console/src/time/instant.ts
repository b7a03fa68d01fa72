// Instants as people read them: always with their offset, in one of three zones.
//
// Not here: deciding which zone (the user, `time/zone.tsx`).

export type ZoneChoice = "job" | "browser" | "utc";

const formats = new Map<string, Intl.DateTimeFormat | null>();

function format(zone: string): Intl.DateTimeFormat | null {
  let made = formats.get(zone);
  if (made === undefined) {
    try {
      made = new Intl.DateTimeFormat("en-CA", {
        timeZone: zone,
        calendar: "gregory",
        numberingSystem: "latn",
        hourCycle: "h23",
        year: "numeric",
        month: "2-digit",
        day: "2-digit",
        hour: "2-digit",
        minute: "2-digit",
        second: "2-digit",
        timeZoneName: "longOffset",
      });
    } catch {
      // A zone that this browser does not know.
      made = null;
    }
    formats.set(zone, made);
  }
  return made;
}

/** The zone of this browser. */
export function browserZone(): string {
  return Intl.DateTimeFormat().resolvedOptions().timeZone;
}

/** `2026-08-30 00:00:00 +08:00`: the instant `text` in `zone`, or as it came if that can't be. */
export function inZone(text: string, zone: string): string {
  const at = new Date(text);
  const known = format(zone);
  if (known === null || Number.isNaN(at.getTime())) return plain(text);
  const parts = new Map(known.formatToParts(at).map((part) => [part.type, part.value]));
  const offset = (parts.get("timeZoneName") ?? "GMT").replace("GMT", "") || "+00:00";
  const part = (name: Intl.DateTimeFormatPartTypes) => parts.get(name) ?? "";
  return (
    `${part("year").padStart(4, "0")}-${part("month")}-${part("day")} ` +
    `${part("hour")}:${part("minute")}:${part("second")} ${offset}`
  );
}

/** An RFC 3339 instant with its own offset, without fractions: `2026-08-30 00:00:00 +08:00`. */
export function plain(text: string): string {
  const match = /^(\d{4,}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?(Z|[+-]\d\d:\d\d)$/.exec(text);
  if (match === null) return text;
  return `${match[1]} ${match[2]} ${match[3] === "Z" ? "+00:00" : match[3]}`;
}

/** The instant in the zone that was chosen; `jobZone` where the job has one. */
export function shown(text: string, choice: ZoneChoice, jobZone: string | undefined): string {
  switch (choice) {
    case "utc":
      return inZone(text, "UTC");
    case "browser":
      return inZone(text, browserZone());
    case "job": {
      if (jobZone !== undefined) return inZone(text, jobZone);
      // What the API gives in the job's zone has its offset already.
      return text.endsWith("Z") ? inZone(text, browserZone()) : plain(text);
    }
  }
}

/** Milliseconds between two instants. */
export function between(from: string, to: string | number): number {
  const end = typeof to === "number" ? to : new Date(to).getTime();
  return end - new Date(from).getTime();
}

/** How a language writes the units of time, with the blank before them if it has one. */
export interface Units {
  d: string;
  h: string;
  min: string;
  s: string;
  ms: string;
}

const UNITS: [keyof Units, number][] = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["min", 60_000],
  ["s", 1_000],
];

/** A length of time in its two largest units: `1 h 5 min`, `3.2 s`, `40 ms`. */
export function length(ms: number, words: Units): string {
  const whole = Math.max(0, Math.round(ms));
  if (whole < 1_000) return `${whole}${words.ms}`;
  if (whole < 10_000) return `${(whole / 1_000).toFixed(1)}${words.s}`;
  const first = UNITS.findIndex(([, unit]) => whole >= unit);
  const [name, unit] = UNITS[first] ?? ["s", 1_000];
  const count = Math.floor(whole / unit);
  const next = UNITS[first + 1];
  const rest = next ? Math.floor((whole % unit) / next[1]) : 0;
  const text = `${count}${words[name]}`;
  return next && rest > 0 ? `${text} ${rest}${words[next[0]]}` : text;
}

/** The offset that an RFC 3339 instant is written with: `+08:00`. */
export function offsetOf(text: string): string {
  const match = /(Z|[+-]\d\d:\d\d)$/.exec(text);
  return match?.[1] === "Z" ? "+00:00" : (match?.[1] ?? "");
}

/** How the offset changes from the instant before to this one, if it does: clocks are changed between. */
export function clockChange(
  before: string | undefined,
  at: string,
): { from: string; to: string; isForward: boolean } | null {
  if (before === undefined) return null;
  const [from, to] = [offsetOf(before), offsetOf(at)];
  if (from === to || from === "" || to === "") return null;
  return { from, to, isForward: minutesOf(to) > minutesOf(from) };
}

function minutesOf(offset: string): number {
  const [hours = 0, minutes = 0] = offset.slice(1).split(":").map(Number);
  return (offset.startsWith("-") ? -1 : 1) * (60 * hours + minutes);
}
