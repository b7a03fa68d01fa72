// Where instants stand on the time axis of a run.

export interface Axis {
  /** Milliseconds since 1970. */
  from: number;
  to: number;
}

/** From the first instant to the last, never of no length. */
export function axis(from: string, to: string | number): Axis {
  const begin = new Date(from).getTime();
  const end = typeof to === "number" ? to : new Date(to).getTime();
  return { from: begin, to: Math.max(end, begin + 1) };
}

export interface Span {
  /** Percent of the axis. */
  left: number;
  width: number;
}

/** Where what began at `from` and ended at `to` (or goes on) stands, within the axis. */
export function span({ from, to }: Axis, begun: string, ended: string | null | undefined): Span {
  const share = (ms: number) => Math.min(100, Math.max(0, (100 * (ms - from)) / (to - from)));
  const left = share(new Date(begun).getTime());
  const right = ended ? share(new Date(ended).getTime()) : 100;
  return { left, width: Math.max(0, right - left) };
}

const STEPS_S = [
  0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900,
  1_800, 3_600, 7_200, 14_400, 28_800, 43_200, 86_400,
];

/** Round offsets from the beginning, in milliseconds, at most `most` of them beside 0. */
export function ticks({ from, to }: Axis, most: number): number[] {
  const length = to - from;
  const day = 86_400_000;
  const step =
    STEPS_S.map((seconds) => seconds * 1_000).find((ms) => length / ms <= most) ??
    Math.ceil(length / most / day) * day;
  return Array.from({ length: Math.floor(length / step) + 1 }, (_, index) => index * step);
}
