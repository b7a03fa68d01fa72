// The console by keyboard alone, and what opens over a page on a narrow one.
import { join } from "node:path";

export const reachSteps = (t) => [
  [
    "everything is reached by keyboard: the content, a page, a change and back to where one was",
    async () => {
      const { at, page, equal, holds } = t;
      const focused = () =>
        page.evaluate(() => document.activeElement?.textContent?.trim().slice(0, 40) ?? "");
      await at("/");
      await page.locator(".number-card").first().waitFor();
      await page.keyboard.press("Tab");
      equal(await focused(), "Skip to the content", "the first stop");
      await page.keyboard.press("Enter");
      await page.keyboard.press("Tab");
      holds(
        (await focused()).startsWith("Open alerts"),
        `the content begins at ${await focused()}`,
      );
      await page.keyboard.press("Enter");
      await page.waitForURL("**/alerts");
      await page.keyboard.press("/");
      const isSearch = () =>
        page.evaluate(() => document.activeElement?.closest('[role="search"]') !== null);
      holds(await isSearch(), "/ leads to the search");
      await page.keyboard.type("hourly");
      await page.keyboard.press("Enter");
      await page.waitForURL("**/jobs/default/hourly");
      await at("/audit");
      const change = page.locator("tbody").getByRole("link", { name: "job saved" }).first();
      await change.focus();
      await page.keyboard.press("Enter");
      const dialog = page.getByRole("dialog");
      await dialog.waitFor();
      // What is behind it is not reached while it is open.
      for (let turn = 0; turn < 12; turn++) {
        await page.keyboard.press("Tab");
        const inside = await dialog.evaluate((box) => box.contains(document.activeElement));
        holds(inside, `Tab ${turn + 1} leaves the dialog`);
      }
      await page.keyboard.press("Escape");
      await dialog.waitFor({ state: "hidden" });
      await page.waitForFunction(() => document.activeElement?.textContent === "job saved");
    },
  ],
  [
    "what opens over a page fits a narrow one, in both languages and colours",
    async () => {
      const { at, page, cluster, shots, serious, holds, axeSays } = t;
      const { items: runs } = await cluster.api("/runs?job=loud&limit=1");
      const { items: changes } = await cluster.api("/changes?entity=job&limit=100");
      const { event } = changes.find(({ event }) => event.data.revision > 1) ?? changes[0];
      const { items: workers } = await cluster.api("/workers");
      const kept = join(cluster.dir, "evidence");
      const views = {
        "over-change": `/audit?change=${event.seq}`,
        "over-output": `/runs/${runs[0].id}?shard=0`,
        "over-worker": `/workers?session=${workers[0].session}`,
        "over-drill": "/drills",
      };
      for (const [language, theme] of [
        ["zh", "light"],
        ["en", "dark"],
      ]) {
        await page.setViewportSize({ width: 390, height: 844 });
        await at("/");
        await page.evaluate(
          ([language, theme]) => {
            localStorage.setItem("sichen.language", language);
            localStorage.setItem("mantine-color-scheme-value", theme);
          },
          [language, theme],
        );
        for (const [name, address] of Object.entries(views)) {
          await at(address);
          if (name === "over-drill") {
            await page.locator('input[type="file"]').setInputFiles(kept);
            await page.locator(".picture img").waitFor();
          } else {
            await page.getByRole("dialog").locator("h2, h3").first().waitFor();
            await page.waitForFunction(() => !document.querySelector(".mantine-Loader-root"));
          }
          const wide = await page.evaluate(
            () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
          );
          holds(wide <= 0, `${name} is ${wide} px too wide`);
          await page.screenshot({
            path: `${shots}/${name}-${language}-${theme}-390.png`,
            fullPage: true,
          });
          await serious(`${name} (${language}, ${theme})`);
        }
      }
      await page.setViewportSize({ width: 1440, height: 900 });
      await page.evaluate(() => localStorage.clear());
      await at("/");
      await axeSays(page, "overview again");
    },
  ],
];
