// Packs what the build writes, and says how much a browser loads for the first page.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";

/** The most that the first page may weigh, compressed, in bytes. */
const MAX_FIRST_PAGE = 400_000;

export function packed() {
  let dir = "";
  return {
    name: "packed",
    apply: "build",
    configResolved(config) {
      dir = config.build.outDir;
    },
    closeBundle() {
      const sizes = new Map();
      for (const entry of readdirSync(dir, { recursive: true })) {
        const name = String(entry);
        if (!/\.(js|css|html|svg)$/.test(name)) continue;
        const path = join(dir, name);
        const small = gzipSync(readFileSync(path), { level: 9 });
        writeFileSync(`${path}.gz`, small);
        sizes.set(`/${name}`, small.length);
      }
      const page = readFileSync(join(dir, "index.html"), "utf8");
      const wanted = [...page.matchAll(/(?:src|href)="([^"]+)"/g)].map((match) => match[1]);
      const first = [...new Set(["/index.html", ...wanted])];
      const total = first.reduce((sum, name) => sum + (sizes.get(name) ?? 0), 0);
      console.log(`first page: ${total} bytes compressed (at most ${MAX_FIRST_PAGE})`);
      if (total > MAX_FIRST_PAGE) throw new Error("the first page has become too heavy");
    },
  };
}
