import { expect, it } from "vitest";
import { axis, span, ticks } from "./gantt_scale";

const at = (seconds: number) => new Date(1_800_000_000_000 + seconds * 1_000).toISOString();
const minute = axis(at(0), at(60));

it("a bar stands where its time does, and what goes on reaches to the end", () => {
  expect(span(minute, at(15), at(30))).toEqual({ left: 25, width: 25 });
  expect(span(minute, at(45), null)).toEqual({ left: 75, width: 25 });
});

it("a bar never leaves the axis, whatever clocks say", () => {
  expect(span(minute, at(-5), at(90))).toEqual({ left: 0, width: 100 });
  expect(span(minute, at(90), at(95))).toEqual({ left: 100, width: 0 });
  expect(span(axis(at(0), at(-9)), at(0), at(0))).toEqual({ left: 0, width: 0 });
});

it("marks are round and few, from a millisecond to years", () => {
  expect(ticks(minute, 6)).toEqual([0, 10_000, 20_000, 30_000, 40_000, 50_000, 60_000]);
  for (const seconds of [0, 0.003, 0.7, 59, 4_000, 90_000, 1e7, 1e9]) {
    const found = ticks(axis(at(0), at(seconds)), 6);
    expect(found.length, `${seconds} s`).toBeGreaterThan(0);
    expect(found.length, `${seconds} s`).toBeLessThanOrEqual(7);
  }
});
