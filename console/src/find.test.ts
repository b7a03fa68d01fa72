import { describe, expect, it } from "vitest";
import { wanted } from "./find";

describe("the search box", () => {
  const cases: [string, ReturnType<typeof wanted>][] = [
    ["17", { kind: "run", id: "17" }],
    [" #17 ", { kind: "run", id: "17" }],
    ["4bf92f3577b34da6a3ce929d0e0e4736", { kind: "run", id: "4bf92f3577b34da6a3ce929d0e0e4736" }],
    [
      "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
      { kind: "run", id: "4bf92f3577b34da6a3ce929d0e0e4736" },
    ],
    [
      "daily-settlement:2026-08-30T00:00:00+08:00",
      { kind: "run", id: "daily-settlement:2026-08-30T00:00:00+08:00" },
    ],
    ["team/report:manual:a b", { kind: "run", id: "team/report:manual:a b" }],
    ["team/report", { kind: "job", namespace: "team", name: "report" }],
    ["settle", { kind: "jobs", search: "settle" }],
    ["结算", { kind: "jobs", search: "结算" }],
    ["  ", null],
  ];
  it.each(cases)("takes %j for what it is", (text, expected) => {
    expect(wanted(text)).toEqual(expected);
  });
});
