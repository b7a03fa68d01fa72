// The form, importing, the Gantt view, what a worker runs, and who changed what.

const ODD_MONDAYS = `apiVersion: sichen/v1
kind: Job
metadata: { name: odd-mondays }
spec:
  run: { handler: noop }
  timeZone: UTC
  schedules: [{ cron: "0 9 */2 * 1" }]
`;

const CRONTAB = `# nightly things
30 3 * * * /usr/local/bin/backup --all
*/5 * * * 1-5 /bin/true
@reboot /usr/bin/once
61 3 * * * /usr/bin/never
`;

export const moreSteps = (t) => [
  [
    "a job is edited as a form, which keeps the rest of its text",
    async () => {
      const { at, click, page, cluster, shot, serious, equal } = t;
      await at("/jobs/new?as=form");
      const name = page.getByRole("textbox", { name: "Name", exact: true });
      await name.fill("formed");
      await page.getByLabel("Handler that workers offer").fill("noop");
      await click("button", "One more schedule");
      await page.getByLabel("Schedule 1", { exact: true }).fill("15 2 * * *");
      await page.getByLabel("Time zone (IANA)").fill("Asia/Shanghai");
      await page.getByLabel("Shards", { exact: true }).fill("7");
      await page.getByLabel("Attempts of each shard").fill("2");
      await shot("form");
      await serious("the form");
      await page.getByText("YAML", { exact: true }).click();
      await page.locator(".cm-content", { hasText: "15 2 * * *" }).waitFor();
      await click("button", "Save");
      await page.waitForURL("**/jobs/default/formed");
      const { document } = await cluster.api("/jobs/default/formed");
      equal(document.spec.shards, { count: 7 }, "the shards");
      equal(document.spec.retry.maxAttempts, 2, "the attempts");
      equal(document.spec.schedules, [{ cron: "15 2 * * *" }], "the schedules");
    },
  ],
  [
    // CRON-008
    "a cron expression is explained in the words of the rules that plan it",
    async () => {
      const { at, page, cluster, equal, holds } = t;
      await cluster.apply(ODD_MONDAYS);
      const { cron, items } = await cluster.api("/jobs/default/odd-mondays/next?count=4");
      for (const item of items) {
        const day = new Date(item);
        const is = day.getUTCDay() === 1 && day.getUTCDate() % 2 === 1;
        holds(is, `${item} is a Monday on an odd date`);
      }
      await at("/jobs/default/odd-mondays");
      const shown = page.locator('[data-cron="0 9 */2 * 1"]');
      await shown.waitFor();
      equal(await shown.textContent(), `${cron[0].cron} ${cron[0].en}`, "the words");
      const instants = page.locator("section", { has: shown }).locator("time");
      const dates = await instants.evaluateAll((all) => all.map((time) => time.dateTime));
      equal(
        dates.map((date) => Date.parse(date)),
        (await cluster.api("/jobs/default/odd-mondays/next?count=10")).items.map(Date.parse),
        "the times",
      );
    },
  ],
  [
    "an edit that others have overtaken is refused, and saved over them only when that is asked for",
    async () => {
      const { at, click, see, page, cluster, shot, serious, equal } = t;
      await at("/jobs/default/formed/edit?as=form");
      const shards = page.getByLabel("Shards", { exact: true });
      await shards.fill("9");
      const { document } = await cluster.api("/jobs/default/formed");
      const others = { ...document, spec: { ...document.spec, priority: 5 } };
      await cluster.apply(JSON.stringify(others));
      await click("button", "Save");
      await see(/has revision 2 by now, you go by 1/);
      await shot("overtaken");
      await serious("an overtaken edit");
      equal((await cluster.api("/jobs/default/formed")).revision, 2, "nothing was written");
      await click("button", "Save over it");
      await page.waitForURL("**/jobs/default/formed");
      const saved = await cluster.api("/jobs/default/formed");
      equal([saved.revision, saved.document.spec.shards], [3, { count: 9 }], "what is there now");
    },
  ],
  [
    "a crontab is pasted, told line by line, and applied when it was seen",
    async () => {
      const { at, see, click, page, cluster, shot, serious, holds } = t;
      await at("/jobs");
      await click("link", "Import");
      await page.getByLabel("Time zone of the machine it is from").fill("Asia/Shanghai");
      await page.getByLabel("The text").fill(CRONTAB);
      await click("button", "Read it");
      await see(/2 jobs can be imported; 2 lines or fields are refused/);
      await see("its next 100 times are those of the source");
      const report = page.getByRole("table", { name: "Line by line" });
      for (const line of ["2", "3", "4", "5"]) {
        await report.getByRole("cell", { name: line, exact: true }).waitFor();
      }
      const before = (await cluster.api("/jobs?limit=1000")).items.length;
      await shot("import");
      await serious("import");
      await click("button", "Apply the others although some are refused");
      await see("Applied");
      const { items } = await cluster.api("/jobs?limit=1000");
      holds(items.length === before + 2, `${items.length - before} jobs were added`);
    },
  ],
  [
    "a run's shards stand on the time axis, and what a worker runs is shown",
    async () => {
      const { at, see, page, cluster, shot, serious } = t;
      const started = await cluster.api("/jobs/default/slow/runs", {
        method: "POST",
        body: JSON.stringify({ key: "gantt" }),
      });
      await cluster.until("it runs", async () => {
        return (await cluster.api(`/runs/${started.id}`)).state === "running";
      });
      await at("/workers");
      const worker = page.locator("main tbody tr a").first();
      const name = await worker.textContent();
      await worker.click();
      await see(`What ${name} runs`);
      await page.getByRole("link", { name: `${started.id}/0` }).waitFor();
      await shot("worker");
      await serious("what a worker runs");
      await at(`/runs/${started.id}?view=gantt`);
      await page.locator("#bar-3 .gantt-bar").waitFor();
      await page.locator('#bar-3[data-state="succeeded"]').waitFor();
      await shot("gantt");
      await serious("gantt");
      await page.getByText("Dense", { exact: true }).click();
      await page.locator("#bar-2").click();
      await see(`Shard 2 of run ${started.id}`);
    },
  ],
  [
    "who changed what is told, by whom and of what",
    async () => {
      const { at, see, page, cluster, shot, serious, equal } = t;
      await at("/audit");
      await see("job saved");
      await see("user api");
      const told = await cluster.api("/changes?limit=1000");
      const kinds = new Set(told.items.map(({ event }) => event.kind));
      for (const kind of ["job_paused", "run_reopened", "namespace_set", "access_token_revoked"]) {
        t.holds(kinds.has(kind), `${kind} is not among the changes`);
      }
      t.holds(
        told.items.every(({ event }) => !/^(node|worker) /.test(event.actor)),
        "a node or worker is among those who changed something",
      );
      await shot("audit");
      await serious("audit");
      await at("/audit?entity=access_token");
      await see("token revoked");
      equal(await page.getByText("job saved").count(), 0, "jobs among the tokens");
      await at("/audit?actor=nobody-at-all");
      await see("Nothing like this was asked for");
    },
  ],
];
