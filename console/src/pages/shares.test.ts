import { expect, it } from "vitest";
import { shares } from "./shares";

const held = (counts: Record<string, number>) =>
  Object.entries(counts).flatMap(([namespace, count]) => Array(count).fill({ namespace }));

it("weights count among those alone that run something", () => {
  const set = [
    { name: "payments", weight: 300 },
    { name: "idle", weight: 1_000 },
  ];
  const found = shares(set, held({ payments: 6, reports: 4 }));
  expect(found).toEqual([
    { name: "idle", weight: 1_000, running: 0, now: 0, due: null },
    { name: "payments", weight: 300, running: 6, now: 0.6, due: 0.75 },
    { name: "reports", weight: 100, running: 4, now: 0.4, due: 0.25 },
  ]);
});

it("nothing that runs and nothing that was set is no share at all", () => {
  expect(shares([], [])).toEqual([]);
});
