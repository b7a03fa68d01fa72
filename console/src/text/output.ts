// What a process wrote, as plain text.
//
// Invariants: nothing of it is ever markup; colours and cursor moves of terminals are taken out, and
// control characters that would hide or reorder text are shown by their symbols.

// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
const ESCAPES = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[@-Z\\-_])/g;
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
const CONTROLS = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/g;
const REORDERING = /[\u202a-\u202e\u2066-\u2069]/g;

/** `text` without terminal escapes, with what is left of control characters made visible. */
export function readable(text: string): string {
  return text
    .replace(ESCAPES, "")
    .replace(/\r\n?/g, "\n")
    .replace(CONTROLS, (c) =>
      c === "\u007f" ? "\u2421" : String.fromCodePoint(0x2400 + (c.codePointAt(0) ?? 0)),
    )
    .replace(REORDERING, "\ufffd");
}
