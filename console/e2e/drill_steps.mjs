// Evidence that a real drill left, opened in the browser.
import { execFile } from "node:child_process";
import { appendFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);

export const drillSteps = (t) => [
  [
    "the evidence of a drill is opened without a server, its digests reckoned, and two of them compared",
    async () => {
      const { at, see, page, cluster, shot, serious, equal, holds } = t;
      const kept = join(cluster.dir, "evidence");
      for (const variant of ["normal", "failure"]) {
        const words = ["drill", "run", "kill-worker", "--seed", "7", "--variant", variant];
        await run(cluster.program, [...words, "--evidence", join(kept, variant)], {
          env: { ...process.env, HOME: cluster.dir },
        });
      }
      await at("/drills");
      await see("How to get evidence");
      await serious("drills without evidence");
      const asked = [];
      page.on("request", (request) => asked.push(request.method()));
      const input = page.locator('input[type="file"]');
      await input.setInputFiles(kept);
      await page.getByRole("button", { name: "evidence/failure" }).waitFor();
      await page.getByRole("img", { name: /Timeline/ }).waitFor();
      const wide = await page
        .getByRole("img", { name: /Timeline/ })
        .evaluate((image) => image.decode().then(() => image.naturalWidth));
      holds(wide > 0, "the picture is not drawn");
      await page.locator('[data-file="history.jsonl"][data-digest="same"]').waitFor();
      equal(await page.locator('[data-digest]:not([data-digest="same"])').count(), 0, "digests");
      const compared = page.getByRole("table", { name: "Side by side" });
      await compared.getByRole("row", { name: /Condition: changed failure.* normal/ }).waitFor();
      holds(
        asked.every((method) => method === "GET"),
        "evidence is sent somewhere",
      );
      await shot("drill");
      await serious("a drill");
      await page.screenshot({ path: join(t.shots, "drill-whole.png"), fullPage: true });
      // What was changed after the drill is seen.
      appendFileSync(join(kept, "failure", "tasks.jsonl"), "{}\n");
      await input.setInputFiles(kept);
      await page.locator('[data-file="tasks.jsonl"][data-digest="other"]').waitFor();
      await input.setInputFiles(join(kept, "failure", "logs"));
      await see("There is no record.yaml in it");
    },
  ],
];
