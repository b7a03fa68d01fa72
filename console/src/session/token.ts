// Who asks in this tab: by a token, from a login link's fragment or the login page, kept for the tab alone;
// or by the cookie that the server gave this browser when somebody logged in, which no script reads.
//
// Invariants: a token that came in the address is taken out of it at once; it is never in a URL
// that is sent or kept, and never in storage that outlives the tab. Of a login only that there is one is kept.

const KEY = "sichen.token";
/** In storage that all tabs share: that somebody logged in with a password. */
const LOGIN = "sichen.login";

/** Why there is no session: none yet, the server refused it, or the user left. */
export type Ended = "none" | "refused" | "left";

let ended: Ended = "none";
let outside: string | null = null;
const listeners = new Set<() => void>();

function tell() {
  for (const listener of listeners) listener();
}

// Another tab logged in or out.
window.addEventListener("storage", (event) => {
  if (event.key === LOGIN) tell();
});

export const session = {
  /** What names this session, whatever it is; `null` if there is none. */
  token(): string | null {
    return sessionStorage.getItem(KEY) ?? localStorage.getItem(LOGIN);
  },
  /** What a request sends along, beside the cookie that the browser adds. */
  headers(): Record<string, string> {
    const token = sessionStorage.getItem(KEY);
    // The server takes a change by cookie from its own pages alone, which it knows by this header.
    return token === null ? { "Sichen-Console": "1" } : { Authorization: `Bearer ${token}` };
  },
  begin(token: string) {
    outside = null;
    sessionStorage.setItem(KEY, token);
    tell();
  },
  /** The server has given this browser a cookie. */
  loggedIn(user: string) {
    outside = null;
    sessionStorage.removeItem(KEY);
    localStorage.setItem(LOGIN, user);
    tell();
  },
  end(why: Ended) {
    if (session.token() === null) return;
    if (sessionStorage.getItem(KEY) === null) {
      // Refused, there is nothing to end at the server.
      if (why === "left")
        void fetch("/api/v1/logout", { method: "POST", headers: session.headers() });
      localStorage.removeItem(LOGIN);
    }
    sessionStorage.removeItem(KEY);
    ended = why;
    tell();
  },
  ended(): Ended {
    return ended;
  },
  /** The provider let nobody in, or nobody whom the server takes. */
  refuse(code: string) {
    outside = code;
    tell();
  },
  /** The code of that. */
  refused(): string | null {
    return outside;
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

/** Why the server let nobody in who came back from the provider, if it did not. */
export function refusedOf(fragment: string): string | null {
  const code = new URLSearchParams(fragment.replace(/^#/, "")).get("refused");
  return code !== null && /^SC\d{4}$/.test(code) ? code : null;
}

/** Takes what a login left in the address into the session, and out of the address. */
export function takeFromAddress() {
  const fragment = window.location.hash;
  const token = tokenOf(fragment);
  const code = refusedOf(fragment);
  const isIn = fragment === "#in";
  if (token === null && code === null && !isIn) return;
  const { pathname, search } = window.location;
  window.history.replaceState(null, "", pathname + search);
  if (token !== null) session.begin(token);
  else if (code !== null) session.refuse(code);
  // Whether it is so the first question tells.
  else session.loggedIn("-");
}
