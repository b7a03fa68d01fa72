// What people are told of, and what each change was.

const FAILING = `apiVersion: sichen/v1
kind: Job
metadata: { name: refused, namespace: payments }
spec:
  run: { handler: fail }
  parameters: { code: card-refused, message: "no answer from bank <b>7</b>", attempts: 1 }
  retry: { maxAttempts: 1 }
`;

/** In a pool of its own, to which nobody comes. */
const LONELY = `apiVersion: sichen/v1
kind: Job
metadata: { name: lonely }
spec:
  run: { handler: noop }
  pool: gpu
`;

const DAILY = (minute) => `apiVersion: sichen/v1
kind: Job
metadata: { name: changed }
spec:
  run: { handler: noop }
  timeZone: Asia/Seoul
  schedules: [{ cron: "${minute} 8 * * *" }]
`;

export const alertSteps = (t) => [
  [
    "what fails and what no worker takes is an open alert, each with its links, and over when it is well",
    async () => {
      const { at, see, page, cluster, shot, serious, equal } = t;
      const start = (job, key) =>
        cluster.api(`/jobs/${job}/runs`, { method: "POST", body: JSON.stringify({ key }) });
      await cluster.apply(FAILING);
      await cluster.apply(LONELY);
      const failed = await start("payments/refused", "once");
      const waiting = await start("default/lonely", "once");
      await at("/alerts");
      const box = (rule) => page.locator(`[data-alert^="${rule}:"][data-phase="open"]`);
      const failures = box("failures").filter({ hasText: "card-refused" });
      await failures.getByRole("link", { name: "payments/refused" }).waitFor();
      await failures.getByText("no answer from bank <b>7</b>").waitFor();
      await box("no_worker").getByRole("link", { name: "gpu", exact: true }).waitFor();
      const waits = page.getByRole("table", { name: "Notices that wait to be sent" });
      await waits.getByRole("row", { name: /^nobody \d+$/ }).waitFor();
      await see(/Server node \d+ looks for them/);
      await shot("alerts-open");
      await serious("open alerts");
      await failures.getByRole("link", { name: "the run" }).click();
      await see(`Run #${failed.id}`);
      await at("/alerts?rule=no_worker");
      await box("no_worker").first().waitFor();
      equal(await box("failures").count(), 0, "alerts of another rule");
      await box("no_worker").getByRole("link", { name: "workers of the pool" }).click();
      await see("No worker of this pool is connected");
      await at("/");
      const card = page.locator(".number-card[data-alarm]", { hasText: "Open alerts" });
      await card.click();
      await page.waitForURL("**/alerts");
      await cluster.api(`/runs/${waiting.id}/cancel`, { method: "POST" });
      await cluster.api(`/runs/${failed.id}/retry`, { method: "POST", body: "{}" });
      const over = page.getByRole("table", { name: "Over lately" });
      await over.getByRole("row", { name: /Runs failed .*payments\/refused/ }).waitFor();
      await over.getByRole("row", { name: /A pool has no worker gpu/ }).waitFor();
      await shot("alerts");
    },
  ],
  [
    "a change is opened with what was before it and after",
    async () => {
      const { at, click, see, page, cluster, shot, serious } = t;
      await cluster.apply(DAILY(0));
      await cluster.apply(DAILY(30));
      await at("/audit?entity=job");
      await page.locator("tbody").getByRole("link", { name: "job saved" }).first().click();
      await see("Revision 1 \u2192 2");
      const diff = page.getByRole("dialog").locator("pre");
      await diff.locator(".diff-removed", { hasText: "cron: 0 8 * * *" }).waitFor();
      await diff.locator(".diff-added", { hasText: "cron: 30 8 * * *" }).waitFor();
      await shot("audit-change");
      await serious("a change");
      // Its address is for a colleague.
      await page.reload();
      await see("Revision 1 \u2192 2");
      await page.keyboard.press("Escape");
      for (const weight of [300, 400]) {
        const body = JSON.stringify({ weight });
        await cluster.api("/namespaces/audited", { method: "POST", body });
      }
      await at("/audit?entity=namespace");
      await click("link", "namespace set");
      await diff.locator(".diff-removed", { hasText: "weight: 300" }).waitFor();
      await diff.locator(".diff-added", { hasText: "weight: 400" }).waitFor();
    },
  ],
  [
    "each planned time stands beside what is recorded of it",
    async () => {
      const { at, see, page, shot, serious, equal } = t;
      await at("/audit?view=planned&job=hourly&days=1");
      // The backfill ran its last three times; what was before the job is not missing.
      await page.locator('[data-recorded="run"]').nth(2).waitFor();
      await page.locator('[data-recorded="before"]').first().waitFor();
      const nothing = page.locator("[data-nothing]");
      equal(await nothing.getAttribute("data-nothing"), "0", "times without a run or a record");
      await see("sichen audit hourly");
      await shot("audit-planned");
      await serious("planned and recorded");
      await at("/audit?view=planned&job=no-such-job");
      await see("There is no such thing");
      await at("/audit?view=planned");
      await page.getByLabel("Job (name, or namespace/name)").fill("changed");
      await page.locator('[data-recorded="before"]').nth(5).waitFor();
    },
  ],
];
