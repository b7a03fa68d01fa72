import { describe, expect, it } from "vitest";
import { jobOf, runOf } from "./alert_text";

describe("what an alert names", () => {
  it("is a job with or without its namespace, and nothing else", () => {
    expect(jobOf("nightly")).toEqual({ namespace: "default", name: "nightly" });
    expect(jobOf("payments/nightly")).toEqual({ namespace: "payments", name: "nightly" });
    expect([jobOf(""), jobOf("a/"), jobOf("a/b/c")]).toEqual([null, null, null]);
  });
  it("is the run that the cause ends with, whatever the failure's text holds", () => {
    expect(runOf("nightly", "exit-1: it ended (run 2026-11-01T00:00:00Z)")).toBe(
      "nightly:2026-11-01T00:00:00Z",
    );
    expect(runOf("payments/pay", "bad: (run 7) was\nhere (run once)")).toBe(
      "payments/pay:manual:once",
    );
    expect(runOf("nightly", "pool etl took none of run 2026-11-01T00:00:00Z")).toBe(
      "nightly:2026-11-01T00:00:00Z",
    );
    expect([runOf("nightly", "3 by catch_up"), runOf("nightly", "")]).toEqual([null, null]);
  });
});
