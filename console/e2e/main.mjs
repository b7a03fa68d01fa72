// The console in a real browser against a real server and real workers: `node e2e/main.mjs PROGRAM`.
//
// Invariants: no route is intercepted and nothing is made up: all that is shown was made through the
// console or the API. Each step waits for what it claims, never for a length of time.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { adminSteps } from "./admin_steps.mjs";
import { alertSteps } from "./alert_steps.mjs";
import { launch } from "./browser.mjs";
import { Cluster } from "./cluster.mjs";
import { drillSteps } from "./drill_steps.mjs";
import * as jobs from "./jobs.mjs";
import { logSteps } from "./log_steps.mjs";
import { moreSteps } from "./more_steps.mjs";
import { overviewSteps } from "./overview_steps.mjs";
import { plainSteps } from "./plain_steps.mjs";
import { reachSteps } from "./reach_steps.mjs";
import { timeSteps } from "./time_steps.mjs";

const program = process.argv[2];
if (!program) {
  console.error("which program? node e2e/main.mjs ../target/debug/sichen");
  process.exit(2);
}
const shots = new URL("./shots/", import.meta.url).pathname;
mkdirSync(shots, { recursive: true });
const axe = readFileSync(new URL("../node_modules/axe-core/axe.min.js", import.meta.url), "utf8");

const cluster = await Cluster.start(program);
const browser = await launch();
const context = await browser.newContext({
  viewport: { width: 1440, height: 900 },
  locale: "en-GB",
  timezoneId: "Europe/Berlin",
  reducedMotion: "reduce",
});
const page = await context.newPage();
page.setDefaultTimeout(20_000);
const complaints = [];
page.on("pageerror", (error) => complaints.push(`page: ${error.message}`));
page.on("console", (message) => {
  // A server that was killed on purpose makes the browser say so.
  if (message.type() === "error" && !/Failed to load resource|ERR_/.test(message.text())) {
    complaints.push(`console: ${message.text()}`);
  }
});

const at = (path) => page.goto(cluster.url + path);
const see = (text, options) => page.getByText(text, options).first().waitFor();
const click = (role, name) => page.getByRole(role, { name, exact: true }).first().click();
const equal = (got, wanted, what) => {
  const [a, b] = [JSON.stringify(got), JSON.stringify(wanted)];
  if (a !== b) throw new Error(`${what}: ${a}, not ${b}`);
};
const holds = (value, what) => {
  if (!value) throw new Error(what);
};
const path = () => new URL(page.url()).pathname;

/** Writes the editor's whole text. */
async function write(text) {
  const editor = page.locator(".cm-content");
  await editor.click();
  await page.keyboard.press("Control+a");
  await page.keyboard.insertText(text);
}

async function axeSays(tab, where) {
  await tab.evaluate(axe);
  const found = await tab.evaluate(() =>
    // The page's policy forbids what is not ours; axe is put in by the test alone.
    window.axe.run(document, { resultTypes: ["violations"] }),
  );
  const bad = found.violations.filter((one) => ["serious", "critical"].includes(one.impact));
  const said = bad.map(
    (one) => `${one.id} (${one.nodes.length}): ${one.nodes[0].html.slice(0, 160)}`,
  );
  holds(bad.length === 0, `axe finds on ${where}:\n    ${said.join("\n    ")}`);
}

const serious = (where) => axeSays(page, where);
const shot = (name) => page.screenshot({ path: join(shots, `${name}.png`) });

const tools = {
  browser,
  cluster,
  page,
  shots,
  at,
  see,
  click,
  write,
  shot,
  serious,
  axeSays,
  equal,
  holds,
};

const steps = [
  [
    "a login link logs in and leaves no token in the address",
    async () => {
      await at(`/#token=${"0".repeat(64)}`);
      await see("The server refused the token");
      await shot("login");
      await serious("login");
      await at(`/#token=${cluster.token}`);
      await page.reload();
      await see("Overview");
      equal(page.url(), `${cluster.url}/`, "the address");
      const kept = await page.evaluate(() => JSON.stringify(localStorage));
      holds(!kept.includes(cluster.token), "the token outlives the tab");
      await see("There is no job yet");
      await page.getByText("Live", { exact: true }).waitFor();
    },
  ],
  [
    "a user logs in with a password, changes something by cookie, and leaves",
    async () => {
      const headers = { Authorization: `Bearer ${cluster.token}` };
      const ask = async (path, body) => {
        const url = `${cluster.url}/api/v1${path}`;
        const answer = await fetch(url, { method: "POST", headers, body: JSON.stringify(body) });
        holds(answer.ok, `${path}: ${answer.status}`);
      };
      await ask("/users", { name: "alice", roles: [{ namespace: "*", role: "admin" }] });
      await ask("/users/alice/password", { password: "correct horse battery" });
      const leave = async () => {
        await click("button", "Settings");
        await click("button", "Log out");
        await see("You have logged out");
      };
      const enter = async (password) => {
        await page.getByLabel("Name").fill("alice");
        await page.getByRole("textbox", { name: "Password" }).fill(password);
        await click("button", "Log in");
      };
      await leave();
      await enter("wrong horse battery");
      await see("The name or the password is wrong");
      await serious("login-wrong");
      await enter("correct horse battery");
      await see("Overview");
      await page.reload();
      await see("Overview");
      const kept = await page.evaluate(() => `${document.cookie} ${JSON.stringify(localStorage)}`);
      holds(!kept.includes("scs_"), "a script reads the cookie");
      const changed = await page.evaluate(async () => {
        const url = "/api/v1/namespaces/default";
        const body = JSON.stringify({ weight: 100 });
        const plain = await fetch(url, { method: "POST", body });
        const own = await fetch(url, { method: "POST", body, headers: { "Sichen-Console": "1" } });
        return [plain.status, own.status];
      });
      equal(changed, [403, 200], "a change without the console's header, and with it");
      await leave();
      const after = await page.evaluate(async () => (await fetch("/api/v1/me")).status);
      equal(after, 401, "after leaving");
      await at(`/#token=${cluster.token}`);
      await see("Overview");
    },
  ],
  [
    "a job with an error is refused at its line, and saved once it is right",
    async () => {
      await at("/jobs/new");
      await write(jobs.hello.replace("handler: sleep", "handlr: sleep"));
      await click("button", "Save");
      await see(/place is wrong|places are wrong/);
      await see(/^line \d+/);
      holds((await page.locator(".cm-lint-marker-error").count()) > 0, "no mark at the line");
      await shot("edit-wrong");
      await serious("edit");
      await write(jobs.hello);
      await click("button", "Check");
      await see("Nothing is wrong with it");
      await click("button", "Save");
      await page.waitForURL("**/jobs/default/hello");
    },
  ],
  [
    "a run is started and its shards change before one's eyes",
    async () => {
      cluster.startWorker("one", 4, jobs.workerConfig(cluster.dir));
      await at("/jobs/default/hello");
      await click("button", "Run now");
      await see("A run is written now");
      await click("button", "Start the run");
      await page.waitForURL("**/runs/*");
      await page.locator('.grid-cell[data-state="running"]').first().waitFor();
      await shot("run-running");
      await page.locator('.grid-cell[data-state="succeeded"]').nth(5).waitFor();
      await see("succeeded");
      await page.getByRole("tab", { name: "Timeline" }).click();
      // The list that scrolls, not the section around it, which hands keys on to the tabs.
      const timeline = page.locator('[role="region"][tabindex="0"][aria-label="Timeline"]');
      await cluster.until("the timeline ends with the run", async () => {
        await timeline.press("End");
        return page.getByText("Settled").first().isVisible();
      });
      await serious("run");
      await shot("run-timeline");
    },
  ],
  [
    "a worker is killed and another takes its shards over",
    async () => {
      await cluster.apply(jobs.slow);
      const started = await cluster.api("/jobs/default/slow/runs", {
        method: "POST",
        body: JSON.stringify({ key: "takeover" }),
      });
      await at(`/runs/${started.id}`);
      await page.locator('.grid-cell[data-state="running"]').nth(3).waitFor();
      await cluster.kill("one");
      cluster.startWorker("two", 8, jobs.workerConfig(cluster.dir));
      await page.locator(".grid-cell").first().click();
      await see("Attempt 2");
      await see("lost");
      await see("two");
      await shot("shard-takeover");
      await page.keyboard.press("Escape");
      await page.locator('.grid-cell[data-state="succeeded"]').nth(3).waitFor();
    },
  ],
  [
    "failed shards are dead letters until they are retried",
    async () => {
      await cluster.apply(jobs.failing);
      const started = await cluster.api("/jobs/default/failing/runs", {
        method: "POST",
        body: JSON.stringify({ key: "once" }),
      });
      await at(`/runs/${started.id}`);
      await page.locator('.grid-cell[data-state="failed"]').nth(2).waitFor();
      await see(/shard 0 failed: out-of-paper/);
      await at("/dead-letters");
      await see("out-of-paper");
      await shot("dead-letters");
      await serious("dead letters");
      await at(`/runs/${started.id}`);
      await click("button", "Retry failed shards");
      await see("3 failed and 0 cancelled shards run again");
      await shot("retry");
      await click("button", "Retry them");
      await page.locator('.grid-cell[data-state="succeeded"]').nth(2).waitFor();
    },
  ],
  [
    "a job is run from the list of jobs, and its runs are a click away",
    async () => {
      await at("/jobs?search=hello");
      await click("link", "Run now: hello");
      await see("A run is written now");
      await page.keyboard.press("Escape");
      await at("/jobs?search=hello");
      await shot("jobs-list");
      await click("link", "Runs: hello");
      await page.waitForURL("**/runs?job=hello");
      await page.locator("tbody tr[data-index='0']").waitFor();
    },
  ],
  [
    "a pause says what it costs and wants the job's name",
    async () => {
      await cluster.apply(jobs.hourly);
      await at("/jobs/default/hourly");
      await click("button", "Pause");
      await see("The first planned time that will not run");
      const button = page.getByRole("button", { name: "Pause it" });
      holds(await button.isDisabled(), "it can be paused without its name");
      await shot("pause");
      await serious("pause");
      await page.getByLabel("Type hourly to confirm").fill("hourly");
      await button.click();
      await see("paused");
      await click("button", "Resume");
      await see("The next planned time");
      await click("button", "Resume it");
      await page.getByRole("button", { name: "Pause", exact: true }).waitFor();
    },
  ],
  [
    "a backfill is previewed, started and seen to its end",
    async () => {
      await at("/jobs/default/hourly");
      await click("button", "Backfills");
      const [from, to] = jobs.lastHours(3);
      await page.getByLabel("From (RFC 3339)").fill(from);
      await page.getByLabel("To, itself left out").fill(to);
      holds(
        await page.getByRole("button", { name: "Start the backfill" }).isDisabled(),
        "it can be started unseen",
      );
      await click("button", "Preview");
      await see("3 planned times in this range");
      await shot("backfill-preview");
      await click("button", "Start the backfill");
      await page.waitForURL("**/backfills/*");
      await see("finished");
      await see("3 done");
      await shot("backfill");
    },
  ],
  [
    // LOG-003, SEC-009
    "what a process writes is text, whatever it looks like",
    async () => {
      await cluster.apply(jobs.loud);
      const started = await cluster.api("/jobs/default/loud/runs", {
        method: "POST",
        body: JSON.stringify({ key: "once" }),
      });
      await at(`/runs/${started.id}?shard=0`);
      await see("red <b>bold</b> <script>window.hit=1</script>");
      // What is no UTF-8 keeps nothing of the rest away.
      await see(/^\uFFFD+ ok$/m);
      equal(await page.evaluate(() => window.hit), undefined, "what the output says was run");
      await shot("output");
      await serious("shard");
    },
  ],
  [
    "any id leads to its object, and names with strange letters are harmless",
    async () => {
      const { items } = await cluster.api("/runs?limit=1");
      const box = page.getByRole("search").getByRole("textbox");
      for (const id of [String(items[0].id), items[0].trace_id, items[0].key]) {
        await at("/");
        await box.fill(id);
        await box.press("Enter");
        await see(`Run #${items[0].id}`);
      }
      await box.fill("hourly");
      await box.press("Enter");
      await page.waitForURL("**/jobs/default/hourly");
      await at("/runs/999999");
      await see("There is no such thing");
      await at("/jobs/default/%3Cimg%20src%3Dx%3E");
      await see("SC1001");
    },
  ],
  ...adminSteps(tools),
  ...moreSteps(tools),
  ...alertSteps(tools),
  ...overviewSteps(tools),
  ...drillSteps(tools),
  ...timeSteps(tools),
  ...logSteps(tools),
  ...plainSteps(tools),
  ...reachSteps(tools),
  [
    // UI-004, whose lists `scale.mjs` times
    "a run of 100,000 shards is seen at once and scrolled to its end",
    async () => {
      await cluster.apply(jobs.huge);
      const started = await cluster.api("/jobs/default/huge/runs", {
        method: "POST",
        body: JSON.stringify({ key: "once" }),
      });
      const begun = Date.now();
      await at(`/runs/${started.id}`);
      await page.locator('.grid-cell[data-state="scheduled"]').nth(500).waitFor();
      const first = Date.now() - begun;
      await page.getByRole("grid").focus();
      const jumped = Date.now();
      await page.keyboard.press("End");
      await page.locator('#shard-99999[data-state="scheduled"]').waitFor();
      const last = Date.now() - jumped;
      const drawn = await page.locator(".grid-cell").count();
      console.log(`         first view ${first} ms, its end ${last} ms, ${drawn} cells drawn`);
      holds(drawn < 10_000, `${drawn} cells are drawn at once`);
      await shot("run-huge");
      await page.keyboard.press("Enter");
      await see(`Shard 99999 of run ${started.id}`);
      await cluster.api(`/runs/${started.id}/cancel`, { method: "POST" });
    },
  ],
  [
    "every view speaks both languages, in both colours, on three widths",
    async () => {
      const { items: runs } = await cluster.api("/runs?job=failing&limit=1");
      const views = {
        overview: "/",
        jobs: "/jobs",
        job: "/jobs/default/hourly",
        runs: "/runs",
        run: `/runs/${runs[0].id}`,
        workers: "/workers",
        "dead-letters": "/dead-letters",
        calendars: "/calendars",
        capacities: "/capacities",
        capacity: "/capacities/mysql-main",
        namespaces: "/namespaces",
        tokens: "/tokens",
        alerts: "/alerts",
        audit: "/audit",
        planned: "/audit?view=planned&job=hourly",
        drills: "/drills",
        import: "/import",
        form: "/jobs/default/hourly/edit?as=form",
        gantt: `/runs/${runs[0].id}?view=gantt`,
        cluster: "/cluster",
      };
      const looks = [
        ["zh", "dark", 1440],
        ["zh", "light", 390],
        ["en", "dark", 390],
        ["en", "light", 1280],
      ];
      for (const [language, theme, width] of looks) {
        await page.setViewportSize({ width, height: width < 500 ? 844 : 900 });
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
          await page.locator("main h1").waitFor();
          await page.waitForFunction(
            () => !document.querySelector('main [role="status"] .mantine-Loader-root'),
          );
          equal(
            await page.getAttribute("html", "lang"),
            language === "zh" ? "zh-CN" : "en",
            "lang",
          );
          const wide = await page.evaluate(
            () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
          );
          holds(wide <= 0, `${name} is ${wide} px too wide at ${width}`);
          await shot(`${name}-${language}-${theme}-${width}`);
          await serious(`${name} (${language}, ${theme}, ${width})`);
        }
      }
      await page.setViewportSize({ width: 1440, height: 900 });
      await page.evaluate(() => localStorage.clear());
    },
  ],
  [
    "times follow the switch and always have their offset",
    async () => {
      await page.setViewportSize({ width: 1440, height: 900 });
      await page.evaluate(() => localStorage.clear());
      await at("/jobs/default/hourly");
      const shown = () => page.locator("main time").first().textContent();
      const zones = page.locator("header").getByLabel("Times in").first();
      for (const [name, offset] of [
        ["UTC", /\+00:00$/],
        ["Browser", /\+0[12]:00$/],
        ["Job's zone", /\+08:00$/],
      ]) {
        await zones.getByText(name, { exact: true }).click();
        const text = await shown();
        holds(offset.test(text), `${name}: ${text}`);
      }
      await cluster.apply(jobs.halfYearly);
      await at("/jobs/default/half-yearly");
      await see("the clocks go forward, from +01:00 to +02:00");
      await see("the clocks go back, from +02:00 to +01:00");
    },
  ],
  [
    "a server that is killed is missed, and found again by itself",
    async () => {
      await at("/");
      await page.getByText("Live", { exact: true }).waitFor();
      await cluster.kill("server");
      await see("The server does not answer");
      await shot("away");
      // What is around a view stays, and the view says why it can't be shown.
      await page.getByRole("navigation").getByRole("link", { name: "Namespaces" }).click();
      await page
        .locator("main")
        .getByText(/could not be loaded|This can't be shown/)
        .first()
        .waitFor();
      await page.getByRole("navigation").getByRole("link", { name: "Overview" }).click();
      await cluster.startServer();
      await page.getByText("The server does not answer").waitFor({ state: "hidden" });
      await page.getByText("Live", { exact: true }).waitFor();
    },
  ],
];

// Words after the program choose the steps that have one of them; what they need must be among them.
const chosen = process.argv.slice(3);
let failed = 0;
const began = Date.now();
for (const [name, step] of steps) {
  if (chosen.length > 0 && !chosen.some((word) => name.includes(word))) continue;
  const start = Date.now();
  try {
    await step();
    console.log(`ok     ${((Date.now() - start) / 1_000).toFixed(1).padStart(5)} s  ${name}`);
  } catch (error) {
    failed += 1;
    console.log(`FAILED ${((Date.now() - start) / 1_000).toFixed(1).padStart(5)} s  ${name}`);
    console.log(`  at ${path()}\n  ${error instanceof Error ? error.message : error}`);
    await shot(`failed-${failed}`).catch(() => {});
  }
}
if (complaints.length > 0) {
  failed += 1;
  console.log(`FAILED the pages complained:\n  ${[...new Set(complaints)].join("\n  ")}`);
}
if (failed > 0) writeFileSync(join(shots, "cluster.log"), cluster.said.join(""));
await browser.close();
await cluster.stop();
const took = ((Date.now() - began) / 1_000).toFixed(1);
console.log(`console: ${steps.length} steps, ${failed} failed, ${took} s; pictures in ${shots}`);
process.exit(failed > 0 ? 1 : 0);
