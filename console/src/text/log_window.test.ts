import { describe, expect, it } from "vitest";
import { append, find, joined, MAX_PIECES, type Piece, prepend, span, textOf } from "./log_window";

const bytes = (text: string) => new TextEncoder().encode(text);
const piece = (offset: number, text: string, skipped = 0): Piece => ({
  offset,
  bytes: bytes(text),
  skipped,
});

describe("what is held of an output", () => {
  it("grows at both ends and gives the other end up, so that it is never more than its limit", () => {
    let held: Piece[] = [];
    for (let at = 0; at < 20; at++) held = append(held, piece(at * 3, "abc"));
    expect([held.length, span(held)]).toEqual([MAX_PIECES, { from: 36, to: 60 }]);
    held = prepend(held, piece(33, "xyz"));
    expect([held.length, span(held)]).toEqual([MAX_PIECES, { from: 33, to: 57 }]);
  });
  it("has no gap that is not said", () => {
    const held = append([], piece(0, "abc"));
    expect(append(held, piece(9, "xyz", 6)).map(({ skipped }) => skipped)).toEqual([0, 6]);
    expect(append(held, piece(9, "xyz"))).toEqual([piece(9, "xyz")]);
    expect(append(held, piece(3, ""))).toBe(held);
  });
  it("takes of what comes before only what it has not", () => {
    const held = append([], piece(6, "ghi"));
    expect(textOf(prepend(held, piece(2, "cdefgh")), null)[0]).toBe("cdefghi");
    expect(prepend(held, piece(8, "ij"))).toBe(held);
    expect(prepend(held, piece(0, "ab"))).toBe(held);
  });
  it("is text although letters are cut in two", () => {
    const all = bytes("你好");
    const held = append([], { offset: 1, bytes: all.subarray(1), skipped: 0 });
    expect(textOf(held, null)[0]).toBe("好");
    const two = append(append([], { offset: 0, bytes: all.subarray(0, 4), skipped: 0 }), {
      offset: 4,
      bytes: all.subarray(4),
      skipped: 0,
    });
    expect(textOf(two, { at: 3, length: 3 })).toEqual(["你", "好", ""]);
  });
});

describe("a word", () => {
  it("is found wherever it stands, and nothing but it", () => {
    expect(find(bytes("aab aac"), bytes("aac"))).toBe(4);
    expect(find(bytes("aaab"), bytes("aab"))).toBe(1);
    expect(find(bytes("aa"), bytes("aab"))).toBe(-1);
    expect(find(bytes("Error"), bytes("error"))).toBe(-1);
    expect(find(bytes("abc"), bytes(""))).toBe(-1);
    expect(find(joined(bytes("err"), bytes("or 7")), bytes("error"))).toBe(0);
    expect(find(bytes("余额不足"), bytes("不足"))).toBe(6);
  });
});
