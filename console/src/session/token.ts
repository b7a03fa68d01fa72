// The token of this tab: from a login link's fragment or the login page, kept for the tab alone.
//
// Invariants: a token that came in the address is taken out of it at once; it is never in a URL
// that is sent or kept, and never in storage that outlives the tab.

const KEY = "sichen.token";

/** Why there is no session: none yet, the server refused the token, or the user left. */
export type Ended = "none" | "refused" | "left";

let ended: Ended = "none";
const listeners = new Set<() => void>();

function tell() {
  for (const listener of listeners) listener();
}

export const session = {
  token(): string | null {
    return sessionStorage.getItem(KEY);
  },
  begin(token: string) {
    sessionStorage.setItem(KEY, token);
    tell();
  },
  end(why: Ended) {
    if (sessionStorage.getItem(KEY) === null) return;
    sessionStorage.removeItem(KEY);
    ended = why;
    tell();
  },
  ended(): Ended {
    return ended;
  },
  listen(listener: () => void): () => void {
    listeners.add(listener);
    return () => listeners.delete(listener);
  },
};

/** The token in a login link's fragment, such as `#token=0a1b`. */
export function tokenOf(fragment: string): string | null {
  return new URLSearchParams(fragment.replace(/^#/, "")).get("token");
}

/** Takes a token from the address into the session, and out of the address. */
export function takeFromAddress() {
  const token = tokenOf(window.location.hash);
  if (token === null) return;
  const { pathname, search } = window.location;
  window.history.replaceState(null, "", pathname + search);
  session.begin(token);
}
