// Overview's numbers against the rows of the store, counted by SQL past the server.
import { databaseOf, number } from "./sql.mjs";

const DAY_US = 86_400_000_000;
const HOUR_US = 3_600_000_000;
const LATE_US = 10_000_000;

/** What each card of Overview has to say, by SQL. */
function wanted(database) {
  const now = Date.now() * 1_000;
  const one = (statement) => number(database, statement);
  const open = (state) => one(`select count(*) from run where state = '${state}'`);
  const ended = (state) =>
    one(`select count(*) from run where state = '${state}' and ended_at >= ${now - DAY_US}`);
  const jobs = (where) => one(`select count(*) from job where deleted_at is null and ${where}`);
  const skipped = (which) =>
    one(`select coalesce(sum(d.count - d.filled), 0) from decision d join job j on j.uid = d.job_uid
         where d.to_at >= ${now - DAY_US} and d.reason ${which}`);
  const sessions = "session where ended_at is null";
  return {
    "Open alerts": one(
      "select count(*) from alert where json_extract(document, '$.phase') = 'open'",
    ),
    "Running runs": open("running"),
    "Runs not started": open("scheduled"),
    "Failed runs": ended("failed"),
    "Partial runs": ended("partial"),
    "Succeeded runs": ended("succeeded"),
    "Cancelled runs": ended("cancelled"),
    Jobs: jobs("paused = 0"),
    "Paused jobs": jobs("paused = 1"),
    "Jobs due within the hour": jobs(
      `paused = 0 and next_due > ${now} and next_due <= ${now + HOUR_US}`,
    ),
    "Late jobs": jobs(`paused = 0 and next_due <= ${now - LATE_US}`),
    Workers: one(`select count(*) from ${sessions}`),
    "Slots in use": one(
      `select count(*) from shard where session_id in (select id from ${sessions})`,
    ),
    "Server nodes": one(`select count(*) from node where expires_at > ${now}`),
    "Duties in nobody's hands": one("select count(*) from duty where node_id is null"),
    "Missed planned times": skipped("in ('deadline', 'catch_up')"),
    "Skipped planned times": skipped("not in ('deadline', 'catch_up', 'removed', 'gap')"),
  };
}

const MIXED = (name, rest) => `apiVersion: sichen/v1
kind: Job
metadata: { name: ${name} }
spec:
${rest}`;

const LOAD = {
  "mixed-good": "  run: { handler: sleep }\n  parameters: { ms: 300 }\n  shards: { count: 3 }\n",
  "mixed-bad":
    "  run: { handler: fail }\n  parameters: { code: bad }\n  retry: { maxAttempts: 1 }\n",
  "mixed-long": "  run: { handler: sleep }\n  parameters: { ms: 4000 }\n  overlap: allow\n",
  "mixed-due": "  run: { handler: noop }\n  schedules: [{ every: 2s }]\n",
};

/** How long the load goes on, how often a page may be behind, and how often the two are compared. */
const LOAD_MS = Number(process.env.SICHEN_LOAD_MS ?? 40_000);
const BEHIND_MS = 16_000;
const SLACK = 3;
const COMPARE_MS = 5_000;

/** Starts, cancels, retries, deletes and kills until `stop.now`. */
async function mixed(cluster, stop) {
  let turn = 0;
  const post = (path, body) =>
    cluster.api(path, { method: "POST", body: body && JSON.stringify(body) }).catch(() => null);
  while (!stop.now) {
    turn += 1;
    const started = [];
    for (const name of ["mixed-good", "mixed-bad", "mixed-long"]) {
      const run = await post(`/jobs/default/${name}/runs`, { key: `turn-${turn}` });
      if (run !== null) started.push(run.id);
    }
    if (turn % 3 === 0) await post(`/runs/${started.at(-1)}/cancel`);
    if (turn % 4 === 0) await post(`/runs/${started[1]}/retry`, {});
    if (turn % 10 === 0) {
      await cluster.api("/jobs/default/mixed-due", { method: "DELETE" }).catch(() => null);
      await cluster.apply(MIXED("mixed-due", LOAD["mixed-due"]));
    }
    if (turn % 15 === 7) {
      await cluster.kill("mixed");
      cluster.startWorker("mixed", 6);
    }
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
}

export const overviewSteps = ({ cluster, page, at, shot, serious, equal, holds }) => [
  [
    // UI-006
    "under a mixed load with kills each number is one that SQL counted no longer ago than a page is behind",
    async () => {
      const database = databaseOf(cluster.dir);
      for (const [name, rest] of Object.entries(LOAD)) await cluster.apply(MIXED(name, rest));
      cluster.startWorker("mixed", 6);
      await at("/");
      await page.locator(".number-card").first().waitFor();
      const stop = { now: false };
      const load = mixed(cluster, stop);
      const counted = [];
      const begun = Date.now();
      let [next, compared] = [begun + BEHIND_MS, 0];
      while (Date.now() < begun + LOAD_MS) {
        counted.push({ at: Date.now(), numbers: wanted(database) });
        if (Date.now() >= next) {
          next = Date.now() + COMPARE_MS;
          compared += 1;
          const shown = await page
            .locator(".number-card")
            .evaluateAll((cards) =>
              cards.map((card) => [card.children[0].textContent, Number(card.dataset.number)]),
            );
          counted.push({ at: Date.now(), numbers: wanted(database) });
          const recent = counted.filter(({ at }) => at >= Date.now() - BEHIND_MS);
          for (const [name, number] of shown) {
            const all = recent.map(({ numbers }) => numbers[name]);
            const [least, most] = [Math.min(...all), Math.max(...all)];
            // Between two countings a number may have been one more or less for a moment.
            const near = number >= 0 && number >= least - SLACK && number <= most + SLACK;
            holds(near, `${name}: ${number} is shown, SQL counted ${least} to ${most}`);
          }
        }
        await new Promise((resolve) => setTimeout(resolve, 400));
      }
      stop.now = true;
      await load;
      holds(compared >= 3, `compared ${compared} times`);
      await cluster.api("/jobs/default/mixed-due", { method: "DELETE" });
      // Of its own: what an earlier step has applied may have become due meanwhile.
      const open = "select count(*) from run where ended_at is null and job_name like 'mixed%'";
      await cluster.until("nothing of it runs", async () => number(database, open) === 0);
      await cluster.kill("mixed");
    },
  ],
  [
    // UI-006
    "every number of Overview is what SQL counts in the store",
    async () => {
      const database = databaseOf(cluster.dir);
      await at("/");
      await page.locator(".number-card").first().waitFor();
      const names = await page.locator(".number-card > p:first-child").allTextContents();
      equal(names.sort(), Object.keys(wanted(database)).sort(), "the cards");
      const read = async (name) => {
        // By its whole name: `Jobs` is a part of others.
        const card = page.locator(".number-card", {
          has: page.getByText(name, { exact: true }),
        });
        return Number(await card.getAttribute("data-number"));
      };
      for (const name of names) {
        let told = "";
        await cluster.until(`${name}: ${told}`, async () => {
          const [shown, counted] = [await read(name), wanted(database)[name]];
          told = `${shown} is shown, SQL counts ${counted}`;
          return shown === counted;
        });
      }
      for (const link of await page.locator(".number-card").all()) {
        holds((await link.getAttribute("href"))?.startsWith("/"), "a number without a link");
      }
      await shot("overview");
      await serious("overview");
    },
  ],
];
