// Capacities, namespaces, tokens; and what somebody sees and may not do.
import { databaseOf, number } from "./sql.mjs";

const CAPACITY = `apiVersion: sichen/v1
kind: Capacity
metadata:
  name: mysql-main
spec:
  units: 3
`;

/** Eight shards of two units each: one of them at a time. */
const USER = `apiVersion: sichen/v1
kind: Job
metadata:
  name: heavy
spec:
  run:
    handler: sleep
  parameters: { ms: 2000 }
  shards: { count: 4 }
  uses:
    mysql-main: 2
`;

/** More than all slots, so that shares show. */
const BUSY = (namespace) => `apiVersion: sichen/v1
kind: Job
metadata:
  name: busy
  namespace: ${namespace}
spec:
  run:
    handler: sleep
  parameters: { ms: 1500 }
  shards: { count: 40 }
`;

export const adminSteps = (t) => [
  [
    "a capacity is made from YAML, shows who holds it and who waits, and is resized by its name",
    async () => {
      const { at, see, click, page, cluster, shot, serious } = t;
      await at("/capacities");
      await see("No capacity yet");
      await click("link", "New capacity");
      await t.write(CAPACITY);
      await click("button", "Save");
      await page.waitForURL("**/capacities");
      await click("link", "mysql-main");
      await see("Nobody holds it");
      await cluster.apply(USER);
      const started = await cluster.api("/jobs/default/heavy/runs", {
        method: "POST",
        body: JSON.stringify({ key: "once" }),
      });
      await see("2 of 3");
      await page.getByRole("link", { name: `#${started.id}` }).waitFor();
      await shot("capacity");
      await serious("a capacity");
      await click("button", "Resize");
      const go = page.getByRole("button", { name: "Resize it" });
      await page.getByLabel("Units at once").fill("1");
      await see(/2 units are held now\. With 1 nothing that uses it starts/);
      t.holds(await go.isDisabled(), "it can be resized without its name");
      await shot("capacity-resize");
      await serious("resizing a capacity");
      await page.getByLabel("Units at once").fill("8");
      await page.getByLabel("Type mysql-main to confirm").fill("mysql-main");
      await go.click();
      await see(/of 8/);
      await cluster.until("the run ends", async () => {
        const run = await cluster.api(`/runs/${started.id}`);
        return run.state === "succeeded";
      });
      await see("Nobody holds it");
      const held = number(databaseOf(cluster.dir), "select count(*) from hold");
      t.equal(held, 0, "holds in the store");
      await click("button", "Delete");
      await page.getByLabel("Type mysql-main to confirm").fill("mysql-main");
      await click("button", "Delete it");
      // The job that uses it keeps it.
      await page
        .getByRole("dialog")
        .getByRole("alert")
        .getByText(/SC\d{4}/)
        .first()
        .waitFor();
      await page.keyboard.press("Escape");
    },
  ],
  [
    "what a namespace may have is set by its name and said before",
    async () => {
      const { at, see, click, page, shot, serious } = t;
      await at("/namespaces");
      await see("Nothing was set for any namespace");
      await click("button", "Set another");
      const dialog = page.getByRole("dialog");
      await dialog.getByRole("textbox", { name: "Namespace", exact: true }).fill("payments");
      await dialog.getByLabel("Weight").fill("300");
      await page.getByLabel("No limit of running shards").uncheck();
      await page.getByLabel("Limit of running shards", { exact: true }).fill("20");
      await see(/payments gets slots by the weight 300/);
      await see(/at most 20 of its shards run at once/);
      await shot("namespace-set");
      await serious("setting a namespace");
      await page.getByLabel("Type payments to confirm").fill("payments");
      await click("button", "Set it");
      await page.getByRole("link", { name: "payments" }).waitFor();
      await t.cluster.apply(BUSY("payments"));
      await t.cluster.apply(BUSY("reports"));
      for (const namespace of ["payments", "reports"]) {
        await t.cluster.api(`/jobs/${namespace}/busy/runs`, {
          method: "POST",
          body: JSON.stringify({ key: "share" }),
        });
      }
      const shares = page.getByRole("table", { name: "Shares now" });
      await shares.getByRole("row", { name: /payments \d+ [\d.]+ % 300 75 %/ }).waitFor();
      await shares.getByRole("row", { name: /reports \d+ [\d.]+ % 100 25 %/ }).waitFor();
      await shot("namespaces");
      await serious("namespaces");
    },
  ],
  [
    "a token is made, its secret shown once; a viewer sees and may not act; revoked, it is out",
    async () => {
      const { at, see, click, page, cluster, shot, serious } = t;
      await at("/tokens");
      await click("button", "New token");
      await page.getByRole("textbox", { name: "Name", exact: true }).fill("watcher");
      await shot("token-new");
      await serious("a new token");
      await click("button", "Make it");
      await see("It is shown here and never again");
      const secret = await page.locator('[role="dialog"] pre').textContent();
      await page.keyboard.press("Escape");
      await see("viewer in default");
      t.holds(!(await page.content()).includes(secret), "the secret stays on the page");
      await shot("tokens");
      await serious("tokens");
      await asViewer(t, secret.trim());
      await click("button", "Revoke: watcher");
      await page.getByLabel("Type watcher to confirm").fill("watcher");
      await click("button", "Revoke it");
      await see("revoked");
      const told = await fetch(`${cluster.url}/api/v1/me`, {
        headers: { Authorization: `Bearer ${secret.trim()}` },
      });
      t.equal(told.status, 401, "the revoked token");
    },
  ],
];

/** All that a viewer of one namespace meets, in a tab of its own. */
async function asViewer({ browser, cluster, shots, holds, axeSays }, secret) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
  const tab = await context.newPage();
  tab.setDefaultTimeout(20_000);
  try {
    await tab.goto(`${cluster.url}/#token=${secret}`);
    await tab.waitForURL("**/jobs");
    const menu = tab.getByRole("navigation", { name: "Menu" });
    for (const hidden of ["Overview", "Workers", "Cluster", "Tokens", "Capacities", "Alerts"]) {
      holds(!(await menu.getByText(hidden, { exact: true }).isVisible()), `${hidden} is offered`);
    }
    await tab.goto(`${cluster.url}/jobs/default/hourly`);
    for (const name of ["Run now", "Pause", "Edit", "Delete"]) {
      const button = tab.getByRole("button", { name, exact: true });
      await button.and(tab.locator("[aria-disabled=true]")).waitFor();
    }
    const pause = tab.getByRole("button", { name: "Pause", exact: true });
    await pause.hover();
    await tab.getByText("This needs the role operator in default").waitFor();
    await pause.click({ force: true });
    holds((await tab.getByRole("dialog").count()) === 0, "a viewer is asked to pause");
    await tab.screenshot({ path: `${shots}/viewer.png` });
    await axeSays(tab, "what a viewer sees");
    // The address of a page that is not for him, as a colleague might send it.
    for (const address of [
      "/workers",
      "/tokens",
      "/capacities",
      "/namespaces",
      "/cluster",
      "/alerts",
    ]) {
      await tab.goto(cluster.url + address);
      await tab.getByText("You may not see this").first().waitFor();
    }
    await tab.screenshot({ path: `${shots}/denied.png` });
    await axeSays(tab, "a page that is denied");
    const told = await fetch(`${cluster.url}/api/v1/jobs/default/hourly/pause`, {
      method: "POST",
      headers: { Authorization: `Bearer ${secret}` },
    });
    holds(told.status === 403, `the server answers a viewer's pause with ${told.status}`);
  } finally {
    await context.close();
  }
}
