// Debian's Chromium, driven by Playwright: nothing is downloaded by the test tool itself.
import { existsSync } from "node:fs";
import { chromium } from "playwright-core";

/** Where the browser is, or null. */
export function chromiumPath() {
  const places = [process.env.SICHEN_CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser"];
  return places.find((place) => place && existsSync(place)) ?? null;
}

export async function launch() {
  const path = chromiumPath();
  if (path === null) throw new Error("no Chromium; install Debian's package chromium");
  return chromium.launch({
    executablePath: path,
    args: [
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
      // A name by which the server is reached as from another machine, without TLS.
      "--host-resolver-rules=MAP sichen.test 127.0.0.1",
    ],
  });
}
