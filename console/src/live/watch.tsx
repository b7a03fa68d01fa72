// News from the server: each event marks what it touches in the cache as stale.
//
// Invariants: news is only a hint to ask again, so one that is lost costs at most the wait until the
// next slow reading. A stream that breaks is opened again where it stopped, with growing waits.
// The stream goes by `fetch`, because an `EventSource` can't send the token in a header.
import { type QueryClient, useQueryClient } from "@tanstack/react-query";
import { createParser } from "eventsource-parser";
import { createContext, type ReactNode, useContext, useEffect, useState } from "react";
import type { Event } from "../api/client";
import { session } from "../session/token";
import { gather } from "./gather";

/** The longest wait before a broken stream is opened again, in milliseconds. */
const LONGEST_WAIT = 8_000;
/** A stream without any sign of life for so long is dead, in milliseconds. */
const SILENT = 45_000;

export type Link = "opening" | "live" | "away";

const Context = createContext<Link>("opening");

export function useLink(): Link {
  return useContext(Context);
}

export function Live({ children }: { children: ReactNode }) {
  const cache = useQueryClient();
  const [link, setLink] = useState<Link>("opening");
  useEffect(() => {
    const stop = new AbortController();
    void follow(cache, setLink, stop.signal);
    return () => stop.abort();
  }, [cache]);
  return <Context.Provider value={link}>{children}</Context.Provider>;
}

async function follow(cache: QueryClient, tell: (link: Link) => void, stop: AbortSignal) {
  const news = gather(cache);
  let last = "";
  let wait = 500;
  while (!stop.aborted && session.token() !== null) {
    const one = new AbortController();
    const both = AbortSignal.any([stop, one.signal]);
    try {
      const opened = await fetch("/api/v1/watch", {
        signal: both,
        headers: {
          ...session.headers(),
          Accept: "text/event-stream",
          ...(last === "" ? {} : { "Last-Event-ID": last }),
        },
      });
      if (opened.status === 401) {
        session.end("refused");
        return;
      }
      if (opened.ok && opened.body !== null) {
        tell("live");
        wait = 500;
        // What happened while nobody listened is not known.
        void cache.invalidateQueries();
        await read(opened.body, one, (id, data) => {
          last = id;
          news(JSON.parse(data) as Event);
        });
      }
    } catch {
      // It broke, or the server is away: both are told below.
    }
    if (stop.aborted) return;
    tell("away");
    await new Promise((resolve) => setTimeout(resolve, wait));
    wait = Math.min(wait * 2, LONGEST_WAIT);
  }
}

/** Reads events until the stream ends; gives it up when nothing at all comes for too long. */
async function read(
  body: ReadableStream<Uint8Array>,
  give: AbortController,
  heard: (id: string, data: string) => void,
) {
  const parser = createParser({
    onEvent: (event) => {
      if (event.id !== undefined && event.data !== "") heard(event.id, event.data);
    },
  });
  const reader = body.pipeThrough(new TextDecoderStream() as never).getReader();
  for (;;) {
    const timer = setTimeout(() => give.abort(), SILENT);
    const { done, value } = await reader.read().finally(() => clearTimeout(timer));
    if (done) return;
    parser.feed(value as unknown as string);
  }
}
