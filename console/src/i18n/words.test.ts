import { describe, expect, it } from "vitest";
import { en } from "./en";
import { zh } from "./zh";

/** Every word of a catalogue by its path; words with numbers are said of 1 and 2. */
function said(words: object, path = ""): [string, string][] {
  return Object.entries(words).flatMap(([key, word]): [string, string][] => {
    const name = `${path}.${key}`;
    if (typeof word === "string") return [[name, word]];
    if (typeof word === "function") {
      const text = (word as (...given: unknown[]) => string)(1, 2);
      return [[name, text]];
    }
    return said(word as object, name);
  });
}

describe("the two catalogues", () => {
  it("say the same things, and nothing is empty", () => {
    const [english, chinese] = [said(en), said(zh)];
    expect(chinese.map(([name]) => name).sort()).toEqual(english.map(([name]) => name).sort());
    for (const [name, text] of [...english, ...chinese]) expect(text, name).not.toBe("");
  });
  it("have no English left in the Chinese one", () => {
    const latin = said(zh).filter(
      ([name, text]) =>
        /[a-z]{2}/i.test(text) && !/[\u4e00-\u9fff]/.test(text) && name !== ".nav.zoneUtc",
    );
    expect(latin).toEqual([]);
  });
});
