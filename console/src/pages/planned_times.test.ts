import { describe, expect, it } from "vitest";
import { recordedOf } from "./planned_times";

const job = { created_at: "2026-11-02T00:00:00Z", decided_until: "2026-11-08T00:00:00Z" };
const at = (day: number) => `2026-11-0${day}T08:00:00+08:00`;
const decision = {
  count: 1,
  reference: "",
  from: "2026-11-04T00:00:00Z",
  to: "2026-11-05T00:00:00Z",
};

describe("what is recorded of a planned time", () => {
  it("is its run, whatever else there is", () => {
    const instants = [{ at: at(4), action: "leave", why: "has_run", run: 7, run_state: "failed" }];
    expect(recordedOf(job, instants, [{ ...decision, reason: "paused" }])).toEqual([
      { at: at(4), what: "run", run: 7, state: "failed" },
    ]);
  });
  it("is the reason why it did not run, also within a span of times", () => {
    const instants = [
      { at: at(4), action: "create", skipped: true },
      { at: at(5), action: "create", skipped: true },
      { at: at(6), action: "create", skipped: true },
    ];
    const told = recordedOf(job, instants, [{ ...decision, reason: "paused" }]);
    expect(told.map(({ what, reason }) => [what, reason])).toEqual([
      ["record", "paused"],
      ["record", "paused"],
      ["record", undefined],
    ]);
  });
  it("is nothing only where something had to be", () => {
    const instants = [1, 3, 9].map((day) => ({ at: at(day), action: "create" }));
    expect(recordedOf(job, instants, []).map(({ what }) => what)).toEqual([
      "before",
      "nothing",
      "undecided",
    ]);
  });
});
