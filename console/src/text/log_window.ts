// A part of an output that is held to be shown: contiguous bytes, however long the whole is.
//
// Invariants: never more than `MAX_PIECES` pieces are held, so that a log of any length costs a browser
// the same. Pieces follow each other without a gap; what was not kept is said by the piece behind it.
//
// Not here: asking for pieces (`pages/use_log.ts`), making text harmless (`output.ts`).

/** Bytes from `offset` on, as the server gave them. */
export interface Piece {
  offset: number;
  bytes: Uint8Array;
  /** Bytes before it that were not kept. */
  skipped: number;
}

/** Pieces that are held at once. */
export const MAX_PIECES = 8;

const endOf = (piece: Piece) => piece.offset + piece.bytes.length;

/** Where what is held begins, and ends. */
export function span(pieces: Piece[]): { from: number; to: number } {
  const [first, last] = [pieces[0], pieces.at(-1)];
  return { from: first?.offset ?? 0, to: last === undefined ? 0 : endOf(last) };
}

/** With `piece` at the end; the oldest give way. One that does not follow what is held replaces it. */
export function append(pieces: Piece[], piece: Piece): Piece[] {
  if (piece.bytes.length === 0) return pieces;
  const follows = pieces.length > 0 && piece.offset - piece.skipped === span(pieces).to;
  return follows ? [...pieces, piece].slice(-MAX_PIECES) : [piece];
}

/** With `piece` at the beginning, cut to what is not held yet; the newest give way. */
export function prepend(pieces: Piece[], piece: Piece): Piece[] {
  const { from } = span(pieces);
  const bytes = piece.bytes.subarray(0, Math.max(0, from - piece.offset));
  if (bytes.length === 0 || piece.offset + bytes.length !== from) return pieces;
  return [{ ...piece, bytes }, ...pieces].slice(0, MAX_PIECES);
}

/** What is held as UTF-8, in three parts: before `mark`, in it, and after it. */
export function textOf(
  pieces: Piece[],
  mark: { at: number; length: number } | null,
): [string, string, string] {
  const { from, to } = span(pieces);
  const all = new Uint8Array(to - from);
  for (const { offset, bytes } of pieces) all.set(bytes, offset - from);
  // A letter may have been cut in two where it begins.
  let begin = 0;
  while (from > 0 && begin < 3 && ((all[begin] ?? 0) & 0xc0) === 0x80) begin += 1;
  const text = (a: number, b: number) => new TextDecoder().decode(all.subarray(a, b));
  if (mark === null || mark.at < from || mark.at + mark.length > to) {
    return [text(begin, all.length), "", ""];
  }
  const at = mark.at - from;
  return [text(begin, at), text(at, at + mark.length), text(at + mark.length, all.length)];
}

/** Where `word` begins in `bytes`, or -1. Upper and lower case are told apart. */
export function find(bytes: Uint8Array, word: Uint8Array): number {
  if (word.length === 0) return -1;
  const first = word[0] as number;
  for (let at = bytes.indexOf(first); at >= 0; at = bytes.indexOf(first, at + 1)) {
    if (at + word.length > bytes.length) return -1;
    let same = 1;
    while (same < word.length && bytes[at + same] === word[same]) same += 1;
    if (same === word.length) return at;
  }
  return -1;
}

/** `before` and `after` as one, so that a word cut in two by a chunk's end is found. */
export function joined(before: Uint8Array, after: Uint8Array): Uint8Array {
  const all = new Uint8Array(before.length + after.length);
  all.set(before);
  all.set(after, before.length);
  return all;
}
