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

export const overviewSteps = ({ cluster, page, at, shot, serious, equal, holds }) => [
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
