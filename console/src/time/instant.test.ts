import { describe, expect, it } from "vitest";
import { en } from "../i18n/en";
import { between, clockChange, inZone, length, plain, shown } from "./instant";

describe("an instant", () => {
  it("has its offset in every zone", () => {
    const at = "2026-08-29T16:00:00Z";
    expect(inZone(at, "Asia/Shanghai")).toBe("2026-08-30 00:00:00 +08:00");
    expect(inZone(at, "UTC")).toBe("2026-08-29 16:00:00 +00:00");
    expect(inZone(at, "Asia/Kathmandu")).toBe("2026-08-29 21:45:00 +05:45");
    expect(inZone(at, "America/St_Johns")).toBe("2026-08-29 13:30:00 -02:30");
  });

  it("shows both of the hours that a clock goes back", () => {
    expect(inZone("2026-10-25T00:30:00Z", "Europe/Berlin")).toBe("2026-10-25 02:30:00 +02:00");
    expect(inZone("2026-10-25T01:30:00Z", "Europe/Berlin")).toBe("2026-10-25 02:30:00 +01:00");
  });

  it("stays as it came where its zone is not known", () => {
    expect(inZone("2026-08-30T00:00:00+08:00", "Mars/Olympus")).toBe("2026-08-30 00:00:00 +08:00");
    expect(plain("2026-08-30T00:00:00.123Z")).toBe("2026-08-30 00:00:00 +00:00");
    expect(plain("soon")).toBe("soon");
  });

  it("is shown in the zone that was chosen", () => {
    const at = "2026-08-30T00:00:00+08:00";
    expect(shown(at, "utc", "Asia/Shanghai")).toBe("2026-08-29 16:00:00 +00:00");
    expect(shown("2026-08-29T16:00:00Z", "job", "Asia/Shanghai")).toBe(
      "2026-08-30 00:00:00 +08:00",
    );
    expect(shown(at, "job", undefined)).toBe("2026-08-30 00:00:00 +08:00");
  });
});

it("a change of the clocks between two instants is seen by their offsets", () => {
  const [before, after] = ["2026-10-24T03:00:00+02:00", "2026-10-25T03:00:00+01:00"];
  expect(clockChange(before, after)).toEqual({
    from: "+02:00",
    to: "+01:00",
    isForward: false,
  });
  const west = clockChange("2026-03-07T03:00:00-05:00", "2026-03-08T03:00:00-04:00");
  expect(west?.isForward).toBe(true);
  expect(clockChange(after, after)).toBeNull();
  expect(clockChange(undefined, after)).toBeNull();
  expect(clockChange("2026-01-01T00:00:00Z", "2026-01-02T00:00:00+00:00")).toBeNull();
});

describe("a length of time", () => {
  it.each([
    [40, "40 ms"],
    [3_210, "3.2 s"],
    [59_000, "59 s"],
    [60_000, "1 min"],
    [3_900_000, "1 h 5 min"],
    [90_000_000, "1 d 1 h"],
    [-5, "0 ms"],
  ])("of %i ms reads %s", (ms, text) => {
    expect(length(ms, en.words.units)).toBe(text);
  });

  it("is what lies between two instants, whatever their offsets", () => {
    expect(between("2026-08-30T00:00:00+08:00", "2026-08-29T16:00:01Z")).toBe(1_000);
  });
});
