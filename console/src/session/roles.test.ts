import { expect, test } from "vitest";
import { allows } from "./roles";

const held = [
  { namespace: "payments", role: "operator" },
  { namespace: "reports", role: "viewer" },
];

test("a role counts in its namespace alone", () => {
  expect(allows(held, "operator", "payments")).toBe(true);
  expect(allows(held, "viewer", "payments")).toBe(true);
  expect(allows(held, "editor", "payments")).toBe(false);
  expect(allows(held, "operator", "reports")).toBe(false);
  expect(allows(held, "viewer", "other")).toBe(false);
});

test("a role everywhere counts in every namespace and in the cluster", () => {
  const all = [{ namespace: "*", role: "editor" }];
  expect(allows(all, "editor", "payments")).toBe(true);
  expect(allows(all, "viewer", "*")).toBe(true);
  expect(allows(all, "admin", "*")).toBe(false);
  expect(allows(held, "viewer", "*")).toBe(false);
});

test("without a namespace any of them will do", () => {
  expect(allows(held, "operator")).toBe(true);
  expect(allows(held, "editor")).toBe(false);
  expect(allows([], "viewer")).toBe(false);
  expect(allows([{ namespace: "*", role: "unheard-of" }], "viewer")).toBe(false);
});
