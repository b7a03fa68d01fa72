// The pages that were built last, before a program that has older ones in it: for whoever changes pages
// and builds no program. All but the pages goes on to the server as it came.
import { readFileSync } from "node:fs";
import { createServer, request } from "node:http";
import { extname, join } from "node:path";

const DIST = new URL("../dist/", import.meta.url).pathname;
const KINDS = { ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml" };
/** What the server says of every page (`crates/sichen-server/src/console.rs`). */
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; " +
  "font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const OWN = /^\/(?:api|healthz|readyz|metrics)(?:\/|$|\?)/;

/** Serves on a free port what `DIST` has, and hands the rest to the server at `port`. */
export function front(port) {
  const server = createServer((asked, answer) => {
    if (OWN.test(asked.url)) return handOn(port, asked, answer);
    const { pathname } = new URL(asked.url, "http://front");
    const isFile = KINDS[extname(pathname)] !== undefined;
    const file = isFile ? pathname : "index.html";
    try {
      const body = readFileSync(join(DIST, file));
      answer.writeHead(200, {
        "content-type": KINDS[extname(file)] ?? "text/html; charset=utf-8",
        "cache-control": isFile ? "public, max-age=31536000, immutable" : "no-cache",
        "content-security-policy": POLICY,
      });
      answer.end(body);
    } catch {
      answer.writeHead(404).end();
    }
  });
  return new Promise((resolve) => {
    server.listen(0, "127.0.0.1", () => resolve({ server, port: server.address().port }));
  });
}

function handOn(port, asked, answer) {
  const { method, url, headers } = asked;
  const on = request({ host: "127.0.0.1", port, method, path: url, headers }, (told) => {
    answer.writeHead(told.statusCode, told.headers);
    told.pipe(answer);
    told.on("error", () => answer.destroy());
  });
  // A server that is away is away for the pages too.
  on.on("error", () => answer.destroy());
  answer.on("close", () => on.destroy());
  asked.pipe(on);
}
