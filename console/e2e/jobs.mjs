// The jobs that the test makes, and what its workers offer.
import { writeFileSync } from "node:fs";
import { join } from "node:path";

const job = (name, handler, rest) => `apiVersion: sichen/v1
kind: Job
metadata:
  name: ${name}
  title: The ${name} job
spec:
  run:
    handler: ${handler}
${rest}`;

export const hello = job("hello", "sleep", "  parameters: { ms: 900 }\n  shards: { count: 8 }\n");

export const slow = job("slow", "sleep", "  parameters: { ms: 5000 }\n  shards: { count: 4 }\n");

/** Each shard fails once, and its one attempt is its whole budget. */
export const failing = job(
  "failing",
  "fail",
  `  parameters: { code: out-of-paper, message: "tray 2 is empty <b>now</b>", attempts: 1 }
  shards: { count: 3 }
  retry: { maxAttempts: 1 }
`,
);

export const hourly = job(
  "hourly",
  "noop",
  `  schedules:
    - cron: "7 * * * *"
  timeZone: Asia/Shanghai
`,
);

/** Before each of its times the clocks are changed. */
export const halfYearly = job(
  "half-yearly",
  "noop",
  `  schedules:
    - cron: "0 12 1 1,7 *"
  timeZone: Europe/Berlin
`,
);

/** As many shards as a run may have; nobody offers its handler, so they stay as they are. */
export const huge = job("huge", "nobody", "  shards: { count: 100000 }\n");

export const loud = job("loud", "loud", "");

/** The last `count` whole hours before the present one, as a half open range. */
export function lastHours(count) {
  const end = Math.floor(Date.now() / 3_600_000) * 3_600_000;
  const text = (ms) => new Date(ms).toISOString().replace(/\.\d+Z/, "Z");
  return [text(end - count * 3_600_000), text(end)];
}

/** Writes a worker's configuration into `dir` and says where. */
export function workerConfig(dir) {
  const path = join(dir, "worker.yaml");
  writeFileSync(
    path,
    `processes:
  loud:
    argv: [/bin/sh, -c, "printf '\\\\033[1;31mred\\\\033[0m <b>bold</b> <script>window.hit=1</script>\\\\n\\\\377\\\\376\\\\200 ok\\\\n'"]
`,
  );
  return path;
}
