import { expect, it } from "vitest";
import { jobIn, schedulesOf, valueAt, withMore, withSchedule, withValue } from "./job_form_text";

const TEXT = `# of the payments team
apiVersion: sichen/v1
kind: Job
metadata:
  name: settle # never change it
spec:
  run:
    handler: settle
  schedules:
    - cron: "0 3 * * *"
      timeZone: Asia/Shanghai
    - every: 5m
    - continuous: {}
  retry:
    maxAttempts: 2
`;

const read = (text: string) => {
  const document = jobIn(text);
  if (document === null) throw new Error(text);
  return document;
};

it("a change of one field leaves the comments and all others as they were", () => {
  const changed = withValue(TEXT, ["spec", "run", "handler"], "settle-2");
  expect(changed).toBe(TEXT.replace("handler: settle\n", "handler: settle-2\n"));
  const titled = withValue(TEXT, ["metadata", "title"], 'a "title": #1');
  expect(valueAt(read(titled), ["metadata", "title"])).toBe('a "title": #1');
  expect(titled).toContain("# never change it");
});

it("what is emptied is taken out, with what it alone was in", () => {
  const emptied = withValue(TEXT, ["spec", "retry", "maxAttempts"], undefined);
  expect(emptied).toBe(TEXT.replace("  retry:\n    maxAttempts: 2\n", ""));
  expect(withValue(emptied, ["spec", "retry", "maxAttempts"], undefined)).toBe(emptied);
  const begun = `${emptied}  retry:\n`;
  expect(
    valueAt(read(withValue(begun, ["spec", "retry", "maxAttempts"], 4)), ["spec", "retry"]),
  ).toEqual({ maxAttempts: 4 });
});

it("schedules are changed in their place and keep what else they say", () => {
  expect(schedulesOf(read(TEXT))).toEqual([
    { way: "cron", value: "0 3 * * *" },
    { way: "every", value: "5m" },
    { way: null, value: "" },
  ]);
  const later = withSchedule(TEXT, 0, "cron", { way: "cron", value: "30 4 * * *" });
  expect(later).toContain('cron: "30 4 * * *"\n      timeZone: Asia/Shanghai');
  const grid = read(withSchedule(TEXT, 0, "cron", { way: "every", value: "1h" }));
  expect(valueAt(grid, ["spec", "schedules", 0])).toEqual({
    every: "1h",
    timeZone: "Asia/Shanghai",
  });
  expect(schedulesOf(read(withMore(TEXT)))).toHaveLength(4);
  const none = withValue(TEXT, ["spec", "schedules"], undefined);
  expect(schedulesOf(read(withMore(none)))).toHaveLength(1);
});

it("what is not one job's document has no fields", () => {
  for (const text of [
    "",
    "- 1",
    "a: [",
    "kind: Calendar",
    `${TEXT}---\n${TEXT}`,
    TEXT.replace("Job", "Capacity"),
  ]) {
    expect(jobIn(text), text).toBeNull();
  }
});
