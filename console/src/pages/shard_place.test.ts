import { expect, it } from "vitest";
import { moved, pagesOf } from "./shard_place";

it("asks for the pages that the rows in sight need", () => {
  expect(pagesOf(0, 999)).toEqual([0]);
  expect(pagesOf(990, 1_010)).toEqual([0, 1]);
  expect(pagesOf(99_500, 99_999)).toEqual([99]);
});

it("keys stay inside the grid", () => {
  expect(moved("ArrowRight", 9, 10, 10)).toBe(9);
  expect(moved("ArrowDown", 3, 10, 25)).toBe(13);
  expect(moved("ArrowUp", 3, 10, 25)).toBe(0);
  expect(moved("End", 3, 10, 25)).toBe(24);
  expect(moved("a", 3, 10, 25)).toBe(3);
});
