import { describe, expect, it } from "vitest";
import { readable } from "./output";

describe("a process's output", () => {
  it("loses its colours and keeps its words", () => {
    expect(
      readable("\u001b[1;31mred\u001b[0m and \u001b]8;;http://x\u0007link\u001b]8;;\u0007"),
    ).toBe("red and link");
  });
  it("keeps markup as the text that it is", () => {
    expect(readable("<b>&amp;</b>")).toBe("<b>&amp;</b>");
  });
  it("shows what would hide or turn text around", () => {
    expect(readable("a\u0008b\u0000\u007f")).toBe("a\u2408b\u2400\u2421");
    expect(readable("safe\u202etxt")).toBe("safe\ufffdtxt");
  });
  it("breaks lines where a terminal would", () => {
    expect(readable("10%\r20%\r\n30%")).toBe("10%\n20%\n30%");
  });
});
