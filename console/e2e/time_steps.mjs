// UI-001: a planned time is the same instant wherever it is shown, in the job's zone or the reader's.
import { execFileSync } from "node:child_process";

const EIGHT = `apiVersion: sichen/v1
kind: Job
metadata: { name: eight }
spec:
  run: { handler: noop }
  timeZone: Asia/Seoul
  schedules: [{ cron: "0 8 * * *" }]
`;

const DAY_MS = 86_400_000;

export const timeSteps = (t) => [
  [
    "a planned time is the same instant in lists, pages, history, API and command line, in whatever zone",
    async () => {
      const { browser, cluster, shots, equal, holds } = t;
      await cluster.apply(EIGHT);
      // 08:00 in Seoul is 23:00 the day before in UTC.
      const first = Math.floor((Date.now() - 23 * 3_600_000) / DAY_MS) * DAY_MS + 23 * 3_600_000;
      const past = [0, 1, 2].map((days) => first - days * DAY_MS).reverse();
      const coming = first + DAY_MS;
      const { id } = await cluster.api("/jobs/default/eight/backfills", {
        method: "POST",
        body: JSON.stringify({
          key: "zones",
          from: new Date(past[0]).toISOString(),
          to: new Date(first + 1_000).toISOString(),
        }),
      });
      await cluster.until(
        "the backfill ends",
        async () => (await cluster.api(`/backfills/${id}`)).state === "finished",
      );
      const context = await browser.newContext({
        viewport: { width: 1440, height: 900 },
        timezoneId: "America/Los_Angeles",
        locale: "en-US",
      });
      const page = await context.newPage();
      page.setDefaultTimeout(20_000);
      const instants = async (scope) =>
        (await page.locator(`${scope} time`).evaluateAll((all) => all.map((one) => one.dateTime)))
          .map((text) => Date.parse(text))
          .filter((ms) => ms % DAY_MS === 23 * 3_600_000);
      try {
        await page.goto(`${cluster.url}/#token=${cluster.token}`);
        await page.getByText("Live", { exact: true }).waitFor();
        for (const [zone, sound] of [
          ["Job's zone", / 08:00:00 \+09:00$/],
          ["Browser", / (15|16):00:00 -0[78]:00$/],
          ["UTC", / 23:00:00 \+00:00$/],
        ]) {
          await page.goto(`${cluster.url}/jobs?search=eight`);
          await page.locator("header").getByText(zone, { exact: true }).first().click();
          const inRow = page.locator("tbody tr", { hasText: "eight" }).locator("time").first();
          await inRow.waitFor();
          equal(Date.parse(await inRow.getAttribute("datetime")), coming, "the next time in Jobs");
          holds(sound.test(await inRow.textContent()), `${zone}: ${await inRow.textContent()}`);
          await page.goto(`${cluster.url}/jobs/default/eight`);
          await page.locator('section[aria-label="Coming times"] time').first().waitFor();
          const listed = await instants('section[aria-label="Coming times"]');
          equal(listed[0], coming, "the first of the coming times");
          holds(
            listed.every((ms, index) => ms === coming + index * DAY_MS),
            "a coming time is out of line",
          );
          const runs = page.locator('section[aria-label="Recent runs"] tbody tr');
          await runs.nth(2).waitFor();
          equal(
            [...new Set(await instants('section[aria-label="Recent runs"]'))].sort(),
            past,
            "planned times of its runs",
          );
          // Its days are those of the job's zone, whatever zone is shown.
          const days = page.locator(
            '[role="list"][aria-label="Outcomes of its planned times"] > *',
          );
          equal(await days.count(), 3, "days of outcomes");
          const newest = new Date(first + 9 * 3_600_000).toISOString().slice(0, 10);
          holds((await days.first().textContent()).includes(newest), "the day of an outcome");
          await page.goto(`${cluster.url}/runs?job=eight`);
          await page.locator("tbody tr[data-index='2']").waitFor();
          const shown = await page
            .locator("tbody tr[data-index] td:nth-child(4)")
            .allTextContents();
          holds(
            shown.every((text) => sound.test(text)),
            `${zone}: ${shown.join(", ")}`,
          );
        }
        await page.screenshot({ path: `${shots}/zones.png` });
      } finally {
        await context.close();
      }
      const { items } = await cluster.api("/jobs/default/eight/next?count=1");
      equal(Date.parse(items[0]), coming, "the API's next time");
      const told = execFileSync(
        cluster.program,
        ["next", "eight", "-o", "json", "--server", `http://127.0.0.1:${cluster.port}`],
        { encoding: "utf8", env: { ...process.env, SICHEN_DATA: `${cluster.dir}/data` } },
      );
      const text = /20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(?:Z|[+-]\d\d:\d\d)/.exec(told)?.[0];
      equal(Date.parse(text), coming, "the command line's next time");
    },
  ],
];
