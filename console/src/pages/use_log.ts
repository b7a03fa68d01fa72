// An output as it is looked at: from its beginning, from its end, followed, searched.
//
// Invariants: one question is under way at a time, each for at most 64 KiB. Who follows a flood is
// brought to its end instead of reading all of it. A search reads on from what is shown, can be stopped,
// and never takes what it reads along.
import { useEffect, useRef, useState } from "react";
import type { Chunk } from "../api/actions";
import { Refused } from "../api/client";
import { append, find, joined, type Piece, prepend, span } from "../text/log_window";

/** The most bytes of one answer. */
const CHUNK = 65_536;
/** How often a log that is followed is asked for, in milliseconds. */
const FOLLOW = 1_000;
/** Who is so far behind the end of a log that he follows is brought to it, in bytes. */
const BEHIND = 4 * CHUNK;
/** Waits before a worker that is asked too much is asked again, in milliseconds. */
const AGAIN = [200, 400, 800, 1_600, 3_200];

export type Read = (offset: number, limit?: number) => Promise<Chunk>;

export interface Log {
  pieces: Piece[];
  end: number;
  ended: boolean;
  error: Error | null;
  follows: boolean;
  /** Where a search is, while one is under way. */
  searching: number | null;
  mark: { at: number; length: number } | null;
  /** Whether the last search came to the end without a find. */
  missed: boolean;
  /** Where to look once the text is drawn. */
  place: "top" | "bottom" | "mark" | null;
}

const EMPTY: Log = {
  pieces: [],
  end: 0,
  ended: false,
  error: null,
  follows: false,
  searching: null,
  mark: null,
  missed: false,
  place: null,
};

/** Asks again a few times where a worker is asked too much by others. */
async function patient(read: Read, offset: number, limit?: number): Promise<Chunk> {
  for (const wait of AGAIN) {
    try {
      return await read(offset, limit);
    } catch (error) {
      if (!(error instanceof Refused) || error.status !== 503) throw error;
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
  }
  return read(offset, limit);
}

const asPiece = ({ offset, bytes, skipped }: Chunk): Piece => ({ offset, bytes, skipped });

export function useLog(read: Read, opens: "begin" | "end" | "follow") {
  const [log, setLog] = useState<Log | null>(null);
  const now = useRef(EMPTY);
  const busy = useRef(false);
  const gone = useRef(false);
  const stop = useRef(false);
  const set = (part: Partial<Log>) => {
    if (gone.current) return;
    now.current = { ...now.current, ...part };
    setLog(now.current);
  };
  const once = async (ask: () => Promise<void>) => {
    if (busy.current) return;
    busy.current = true;
    try {
      await ask();
    } catch (error) {
      set({ error: error as Error, searching: null });
    } finally {
      busy.current = false;
    }
  };
  const told = ({ end, ended }: Chunk) => ({ end, ended, error: null });
  const begin = () =>
    once(async () => {
      const chunk = await patient(read, 0);
      set({ ...told(chunk), pieces: append([], asPiece(chunk)), place: "top", follows: false });
    });
  /** The last bytes that there are; where the end is must be asked first. */
  const toEnd = async (known?: Chunk) => {
    const { end } = known ?? (await patient(read, now.current.end, 0));
    const chunk = await patient(read, Math.max(0, end - CHUNK));
    set({ ...told(chunk), pieces: append([], asPiece(chunk)), place: "bottom" });
  };
  const end = () => once(() => toEnd());
  const later = () =>
    once(async () => {
      const chunk = await patient(read, span(now.current.pieces).to);
      set({ ...told(chunk), pieces: append(now.current.pieces, asPiece(chunk)), place: null });
    });
  const earlier = () =>
    once(async () => {
      const { from } = span(now.current.pieces);
      const offset = Math.max(0, from - CHUNK);
      const chunk = await patient(read, offset, from - offset);
      const pieces = prepend(now.current.pieces, asPiece(chunk));
      set({ ...told(chunk), pieces, place: "top", follows: false });
    });
  const follow = async () => {
    const { pieces } = now.current;
    const { to } = span(pieces);
    const chunk = await patient(read, to);
    if (chunk.end - to > BEHIND) return toEnd(chunk);
    const fresh = append(pieces, asPiece(chunk));
    const place = fresh === pieces ? null : ("bottom" as const);
    set({ ...told(chunk), pieces: fresh, place, follows: now.current.follows && !chunk.ended });
  };
  const search = (word: string) =>
    once(async () => {
      const wanted = new TextEncoder().encode(word);
      const { mark, pieces } = now.current;
      let at = mark === null ? span(pieces).from : mark.at + 1;
      let carried = new Uint8Array(0);
      stop.current = false;
      set({ searching: at, missed: false, follows: false });
      while (!stop.current && !gone.current) {
        const chunk = await patient(read, at);
        // What was not kept parts what stands before it from what stands behind it.
        if (chunk.skipped > 0) carried = new Uint8Array(0);
        const begins = chunk.offset - carried.length;
        const looked = joined(carried, chunk.bytes);
        const found = find(looked, wanted);
        if (found >= 0) return show(begins + found, wanted.length);
        if (chunk.bytes.length === 0 || chunk.next >= chunk.end) break;
        carried = new Uint8Array(looked.subarray(Math.max(0, looked.length - wanted.length + 1)));
        at = chunk.next;
        set({ searching: at, end: chunk.end });
      }
      set({ searching: null, missed: !stop.current, mark: null });
    });
  /** What stands around a find. */
  const show = async (at: number, length: number) => {
    const chunk = await patient(read, Math.max(0, at - CHUNK / 2));
    const pieces = append([], asPiece(chunk));
    set({ ...told(chunk), pieces, mark: { at, length }, searching: null, place: "mark" });
  };

  useEffect(() => {
    gone.current = false;
    void once(async () => {
      const chunk = await patient(read, 0);
      const isAll = chunk.next >= chunk.end;
      const place = opens === "follow" ? "bottom" : "top";
      const follows = opens === "follow" && !chunk.ended;
      set({ ...told(chunk), pieces: append([], asPiece(chunk)), place, follows });
      if (opens !== "begin" && !isAll) await toEnd(chunk);
    });
    return () => {
      gone.current = true;
      stop.current = true;
    };
  }, [read]);
  const follows = log?.follows === true;
  useEffect(() => {
    if (!follows) return;
    const timer = setInterval(() => void once(follow), FOLLOW);
    return () => clearInterval(timer);
  }, [follows, read]);

  return {
    log,
    begin,
    end,
    later,
    earlier,
    search,
    stop: () => {
      stop.current = true;
    },
    /** A word that is typed anew is looked for from what is shown. */
    forget: () => set({ mark: null, missed: false }),
    follow: (follows: boolean) => {
      set({ follows });
      if (follows) void once(() => toEnd());
    },
  };
}
