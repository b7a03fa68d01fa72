// The console as most reach it in a company's own network: by HTTP, from another machine.
import { lastHours } from "./jobs.mjs";

export const plainSteps = (t) => [
  [
    "on a page that came neither by TLS nor from this machine a backfill starts, and nothing breaks",
    async () => {
      const { browser, cluster, shots, equal } = t;
      const context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
      const page = await context.newPage();
      page.setDefaultTimeout(20_000);
      const complaints = [];
      page.on("pageerror", (error) => complaints.push(error.message));
      try {
        const origin = cluster.url.replace("127.0.0.1", "sichen.test");
        await page.goto(`${origin}/#token=${cluster.token}`);
        await page.getByText("Live", { exact: true }).waitFor();
        equal(await page.evaluate(() => window.isSecureContext), false, "a secure context");
        await page.goto(`${origin}/jobs/default/hourly`);
        await page.getByRole("button", { name: "Backfills", exact: true }).first().click();
        const [from, to] = lastHours(5);
        await page.getByLabel("From (RFC 3339)").fill(from);
        await page.getByLabel("To, itself left out").fill(to);
        await page.getByRole("button", { name: "Preview" }).click();
        await page.getByText("5 planned times in this range").waitFor();
        await page.getByRole("button", { name: "Start the backfill" }).click();
        await page.waitForURL("**/backfills/*");
        await page.getByText("finished").first().waitFor();
        await page.goto(`${origin}/drills`);
        await page.getByText("How to get evidence").waitFor();
        equal(complaints, [], "complaints");
      } catch (error) {
        await page.screenshot({ path: `${shots}/failed-plain.png` });
        throw error;
      } finally {
        await context.close();
      }
    },
  ],
];
