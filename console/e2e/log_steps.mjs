// LOG-008: looking at a huge log, and following one that is written fast, while others look too.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const GIB = 1024 ** 3;
const NEEDLE = "needle-in-the-log";
const LINES = 5_000;
const SECONDS = 12;
const VIEWERS = 20;

/** Writes a worker's configuration with the two programs into `dir` and says where. */
function config(dir) {
  const path = join(dir, "logs.yaml");
  const line = "0123456789 abcdefghij 0123456789 abcdefghij 0123456789 abcdefghij 0123456789";
  const huge =
    `yes '${line}' | head -c ${GIB / 128}; echo; echo ${NEEDLE}; ` +
    `yes '${line}' | head -c ${GIB - GIB / 128}; echo; echo the last words`;
  const flood = `i=0; while [ $i -lt ${SECONDS} ]; do yes "second $i ${line}" | head -n ${LINES}; sleep 1; i=$((i+1)); done; echo over`;
  const argv = (script) => JSON.stringify(["/bin/sh", "-c", script]);
  writeFileSync(
    path,
    `output_limit_bytes: ${GIB + 1_000_000}
output_total_bytes: ${3 * GIB}
processes:
  huge-log: { argv: ${argv(huge)} }
  flood: { argv: ${argv(flood)} }
`,
  );
  return path;
}

const JOB = (name) => `apiVersion: sichen/v1
kind: Job
metadata: { name: ${name} }
spec:
  run: { handler: ${name} }
  pool: logs
`;

/** The memory of a process, in MB. */
const megabytes = (pid) =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))[1]) / 1_024;

export const logSteps = (t) => [
  [
    "a log of 1 GiB is opened at once, its end and a word in it are found, and nobody grows by it",
    async () => {
      const { at, page, cluster, shot, serious, holds } = t;
      cluster.startWorker("logs", 4, config(cluster.dir), "logs");
      for (const name of ["huge-log", "flood"]) await cluster.apply(JOB(name));
      const started = await start(cluster, "huge-log");
      await cluster.until(
        "the log is written",
        async () => (await cluster.api(`/runs/${started.id}`)).state === "succeeded",
        180,
      );
      const server = cluster.children.get("server").pid;
      const before = megabytes(server);
      await at(`/runs/${started.id}?shard=0`);
      const part = page.locator("[data-end]").first();
      await part.waitFor();
      const { first, largest } = await page.evaluate(() => {
        const answers = performance.getEntriesByType("resource");
        const outputs = answers.filter(({ name }) => name.includes("/output"));
        return {
          first: Math.round(performance.now()),
          largest: Math.max(...outputs.map(({ decodedBodySize }) => decodedBodySize)),
        };
      });
      holds(largest <= 65_536, `an answer of ${largest} bytes`);
      await page.getByRole("button", { name: "End", exact: true }).click();
      const output = page.getByRole("region", { name: "Output stdout" });
      await output.getByText("the last words").waitFor();
      holds(Number(await part.getAttribute("data-to")) > GIB, "the end is not the end");
      await shot("log-end");
      await page.getByRole("button", { name: "Beginning", exact: true }).click();
      await page.locator('[data-from="0"]').waitFor();
      await page.getByLabel("Word, as it is written").fill(NEEDLE);
      const asked = Date.now();
      await page.getByRole("button", { name: "Find next" }).click();
      await page.locator("mark", { hasText: NEEDLE }).waitFor({ timeout: 60_000 });
      const found = ((Date.now() - asked) / 1_000).toFixed(1);
      holds(await inView(page.locator("mark")), "the word is not in sight");
      await shot("log-found");
      await serious("a huge log");
      const grown = megabytes(server) - before;
      const heap = await heapOf(page);
      console.log(
        `         shown after ${first} ms; 8 MiB looked through in ${found} s; the server grew by ` +
          `${grown.toFixed(0)} MB, the page's heap is ${heap.toFixed(0)} MB`,
      );
      holds(grown < 100, `the server grew by ${grown} MB`);
      holds(heap < 300, `the page has ${heap} MB`);
    },
  ],
  [
    "a log written at 5,000 lines a second is followed, and 20 who look do not slow its run",
    async () => {
      const { at, page, cluster, holds } = t;
      const alone = await took(cluster, await start(cluster, "flood"));
      const started = await start(cluster, "flood", "watched");
      await at(`/runs/${started.id}?shard=0`);
      const stop = { now: false };
      const viewers = Array.from({ length: VIEWERS }, () => viewer(cluster, started.id, stop));
      const output = page.getByRole("region", { name: "Output stdout" });
      await output
        .getByText(/second 3 /)
        .first()
        .waitFor();
      await output
        .getByText(/second 7 /)
        .first()
        .waitFor();
      const bottom = await output.evaluate(
        (box) => box.scrollHeight - box.scrollTop - box.clientHeight,
      );
      holds(bottom < 40, `it is followed ${bottom} px above its end`);
      const watched = await took(cluster, started);
      stop.now = true;
      const read = (await Promise.all(viewers)).reduce((sum, bytes) => sum + bytes, 0);
      const heap = await heapOf(page);
      console.log(
        `         its run took ${(alone / 1_000).toFixed(1)} s alone, ${(watched / 1_000).toFixed(1)} s with ` +
          `${VIEWERS} who read ${(read / 1e6).toFixed(0)} MB; the page's heap is ${heap.toFixed(0)} MB`,
      );
      holds(watched < alone * 1.25 + 1_000, "those who look slow the run down");
      holds(heap < 300, `the page has ${heap} MB`);
    },
  ],
];

const start = (cluster, job, key = "once") =>
  cluster.api(`/jobs/default/${job}/runs`, { method: "POST", body: JSON.stringify({ key }) });

/** How long a run took, in milliseconds, once it has ended. */
async function took(cluster, { id }) {
  const run = await cluster.until(
    "the run ends",
    async () => {
      const run = await cluster.api(`/runs/${id}`);
      return run.ended_at ? run : null;
    },
    120,
  );
  if (run.state !== "succeeded") throw new Error(`run ${id} ${run.state}`);
  return Date.parse(run.ended_at) - Date.parse(run.started_at);
}

/** Looks at the end of an attempt's output once a second; how many bytes it was told. */
async function viewer(cluster, id, stop) {
  let [read, end] = [0, 0];
  while (!stop.now) {
    const path = `/api/v1/runs/${id}/shards/0/attempts/1/output?offset=${Math.max(0, end - 65_536)}`;
    const told = await fetch(cluster.url + path, {
      headers: { Authorization: `Bearer ${cluster.token}` },
    });
    read += (await told.arrayBuffer()).byteLength;
    // A worker that is asked too much says so; whoever looks asks again.
    if (told.ok) end = Number(told.headers.get("sichen-end"));
    await new Promise((resolve) => setTimeout(resolve, 1_000));
  }
  return read;
}

const inView = (locator) =>
  locator.evaluate((element) => {
    const { top, bottom } = element.getBoundingClientRect();
    return top >= 0 && bottom <= window.innerHeight;
  });

/** What the page's scripts hold, in MB. */
async function heapOf(page) {
  const session = await page.context().newCDPSession(page);
  await session.send("HeapProfiler.collectGarbage");
  const { usedSize } = await session.send("Runtime.getHeapUsage");
  await session.detach();
  return usedSize / 1e6;
}
