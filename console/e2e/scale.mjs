// UI-004: the console over 10,000 jobs and 1,000,000 runs: `node e2e/scale.mjs PROGRAM`.
//
// The rows are copies of a real job and a real run, written by SQL while the server is down; the server
// is then started on them as on any other store. Each view is opened anew and timed until its rows are
// there; the long listings are scrolled by wheel while every frame is timed.
// SICHEN_PATIENCE=10 allows a slower machine ten times as much; SICHEN_SCALE_DIR=DIR keeps the rows in DIR,
// where a later run finds them.
import { mkdirSync, readFileSync, statSync } from "node:fs";
import { launch } from "./browser.mjs";
import { Cluster } from "./cluster.mjs";
import { databaseOf, number, rows, write } from "./sql.mjs";

const JOBS = Number(process.env.SICHEN_JOBS ?? 10_000);
const RUNS_OF_EACH = Number(process.env.SICHEN_RUNS_OF_EACH ?? 80);
/** And one of them has as many as this. */
const RUNS_OF_ONE = Number(process.env.SICHEN_RUNS_OF_ONE ?? 200_000);
const PATIENCE = Number(process.env.SICHEN_PATIENCE ?? 1);
/** The longest until a view shows its rows, and between two frames while scrolling, in ms. */
const FIRST_VIEW = 1_000 * PATIENCE;
const FRAME = 250 * PATIENCE;
/** The largest answer that a view may ask for, in bytes. */
const ANSWER = 1_000_000;
/** The most work that a view may make the server do, in ms of a processor. */
const CPU = 200 * PATIENCE;
/** The most that the page's scripts may hold after all the scrolling, in MB. */
const HEAP = 500;

const program = process.argv[2];
if (!program) {
  console.error("which program? node e2e/scale.mjs ../target/debug/sichen");
  process.exit(2);
}

const TEMPLATE = `apiVersion: sichen/v1
kind: Job
metadata:
  name: template
  title: A template
spec:
  run:
    handler: noop
  schedules:
    - cron: "30 4 1 1 *"
  timeZone: Asia/Shanghai
`;

const HUGE = `apiVersion: sichen/v1
kind: Job
metadata: { name: huge }
spec:
  run: { handler: noop }
  pool: huge
  shards: { count: 100000 }
`;

/** All columns of a table but those in `own`, whose values are given. */
function copied(columns, own) {
  const values = columns.map((name) => own[name] ?? `t.${name}`);
  return `(${columns.join(", ")}) select ${values.join(", ")}`;
}

const JOB = `replace(t.document, '"name":"template"', '"name":"' || n.name || '"')`;

function statements(columns) {
  // Less than what is kept, so that nothing of it is removed meanwhile.
  const span = 20 * 86_400_000_000;
  const runs = JOBS * RUNS_OF_EACH + RUNS_OF_ONE;
  const state = `case when r.n % 100 < 3 then 'failed' when r.n % 100 < 4 then 'cancelled' else 'succeeded' end`;
  const at = `(select created_at from run limit 1) - ${span} + cast(r.n as integer) * ${Math.floor(span / runs)}`;
  const own = {
    id: "r.n + 1000",
    job_uid: "j.uid",
    namespace: "j.namespace",
    job_name: "j.name",
    occasion: "'m/' || r.n",
    partition: "j.partition",
    state,
    succeeded: `(${state}) = 'succeeded'`,
    failed: `(${state}) = 'failed'`,
    cancelled: `(${state}) = 'cancelled'`,
    created_at: at,
    started_at: `${at} + 40000`,
    ended_at: `${at} + 40000 + (r.n * 7919) % 90000000`,
  };
  const shard = {
    run_id: "r.id",
    state: "r.state",
    last_end: "r.state",
    started_at: "r.started_at",
    ended_at: "r.ended_at",
    failure_code: "case when r.state = 'failed' then 'exit-' || (r.id % 5 + 1) end",
    failure_message: "case when r.state = 'failed' then 'it ended badly' end",
  };
  return `
create temp table n as with recursive c(n) as (select 0 union all select n + 1 from c where n < ${JOBS - 1})
  select n, printf('bulk-%05d', n) as name, randomblob(16) as uid from c;
create unique index temp.n_n on n (n);
insert into job ${copied(columns.job, {
    uid: "n.uid",
    name: "n.name",
    document: JOB,
    paused: "n.n % 50 = 7",
    partition: "n.n % 64",
    namespace: "case n.n % 4 when 0 then 'payments' when 1 then 'reports' else 'default' end",
  })} from n join job t on t.name = 'template';
update job set document = replace(document, '"namespace":"default"', '"namespace":"' || namespace || '"');
insert into revision ${copied(columns.revision, { job_uid: "j.uid", document: "j.document" })}
  from job j join job o on o.name = 'template' join revision t on t.job_uid = o.uid where j.name <> 'template';
create temp table j as select n.n, j.uid, j.namespace, j.name, j.partition from n join job j on j.uid = n.uid;
create unique index temp.j_n on j (n);
create temp table t as select * from main.run;
create temp table u as select * from main.shard;
insert into run ${copied(columns.run, own)} from
  (with recursive c(n) as (select 0 union all select n + 1 from c where n < ${runs - 1}) select n from c) r
  join j on j.n = case when r.n % ${Math.round(runs / RUNS_OF_ONE)} = 0 then 0 else r.n % ${JOBS} end
  cross join temp.t as t;
insert into shard ${copied(columns.shard, shard).replaceAll("t.", "u.")} from run r cross join temp.u as u
  where r.id >= 1000;
update meta set last_id = (select max(id) from run) + 1000;`;
}

const kept = process.env.SICHEN_SCALE_DIR;
if (kept) mkdirSync(kept, { recursive: true });
const cluster = await Cluster.start(program, kept);
const database = databaseOf(cluster.dir);
if (number(database, "select count(*) from run") < 1_000) await fill();

/** Makes one job and one run, and then all the others after them. */
async function fill() {
  cluster.startWorker("one", 4);
  await cluster.apply(TEMPLATE);
  const first = await cluster.api("/jobs/default/template/runs", {
    method: "POST",
    body: JSON.stringify({ key: "template" }),
  });
  await cluster.until("the template has run", async () => {
    return (await cluster.api(`/runs/${first.id}`)).state === "succeeded";
  });
  await cluster.kill("one");
  await cluster.kill("server");
  const columnsOf = (table) =>
    rows(database, `select name from pragma_table_info('${table}')`).map(({ name }) => name);
  const tables = ["job", "revision", "run", "shard"];
  const began = Date.now();
  write(database, statements(Object.fromEntries(tables.map((name) => [name, columnsOf(name)]))));
  console.log(`written in ${((Date.now() - began) / 1_000).toFixed(0)} s`);
  await cluster.startServer();
}

const huge = await begun();

/** A run of 100,000 shards of which some have run: its worker went, and nobody else has its pool. */
async function begun() {
  await cluster.apply(HUGE);
  const { id } = await cluster.api("/jobs/default/huge/runs", {
    method: "POST",
    body: JSON.stringify({ key: "once" }),
  });
  const done = async () => (await cluster.api(`/runs/${id}`)).shards.succeeded;
  if ((await done()) < 500) {
    cluster.startWorker("hundred", 32, undefined, "huge");
    await cluster.until("500 shards have run", async () => (await done()) >= 500, 120);
    await cluster.kill("hundred");
  }
  return id;
}

const [jobs, runs] = ["job", "run"].map((table) =>
  number(database, `select count(*) from ${table}`),
);
const megabytes = (statSync(database).size / 1e6).toFixed(0);
console.log(`${jobs} jobs and ${runs} runs, ${megabytes} MB`);
cluster.startWorker("one", 4);

const browser = await launch();
const context = await browser.newContext({
  viewport: { width: 1440, height: 900 },
  locale: "en-GB",
  timezoneId: "Europe/Berlin",
});
const page = await context.newPage();
page.setDefaultTimeout(60_000);
await page.goto(`${cluster.url}/#token=${cluster.token}`);
await page.locator(".number-card").first().waitFor();

// Words after the program choose the views that have one of them.
const chosen = process.argv.slice(3);
const isChosen = ([name]) =>
  chosen.length === 0 || chosen.some((word) => name.toLowerCase().includes(word));
const bad = [];
const row = "tbody tr[data-index='0'] a, tbody tr[data-index='0'] td";
const last = number(database, "select max(id) from run");
const dead = "main tbody tr td a";
const views = [
  ["Overview", "/", '.number-card[data-number]:not([data-number=""])'],
  ["Jobs", "/jobs", row],
  ["Jobs, by name", "/jobs?search=bulk-0999", row],
  ["Jobs, by a letter", "/jobs?search=a", row],
  ["Jobs, paused", "/jobs?state=paused", row],
  ["Jobs, late (none)", "/jobs?state=late", "text=No job like this"],
  ["Jobs, none has the name", "/jobs?search=zzzz", "text=No job like this"],
  ["a job with 80 runs", "/jobs/reports/bulk-00001", "text=Recent runs"],
  ["the job with 200,000 runs", "/jobs/payments/bulk-00000", "text=Recent runs"],
  ["Runs", "/runs", row],
  ["Runs, failed", "/runs?state=failed", row],
  ["Runs, partial (none)", "/runs?state=partial", "text=No run like this"],
  ["Runs of one job", "/runs?job=payments%2Fbulk-00000", row],
  ["Runs of one job, failed", "/runs?job=payments%2Fbulk-00000&state=failed", row],
  ["a run", `/runs/${last}`, ".grid-cell[data-state]"],
  ["Dead letters", "/dead-letters", dead],
  ["Dead letters, by code", "/dead-letters?code=exit-3", dead],
  ["Workers", "/workers", "main tbody tr"],
  ["Alerts", "/alerts", "[data-alert], main table"],
  ["Audit", "/audit", row],
  ["a run of 100,000 shards", `/runs/${huge}`, ".grid-cell[data-state]"],
  ["a run of 100,000 shards, Gantt", `/runs/${huge}?view=gantt`, ".gantt-bar, [data-state]"],
];
// Once unmeasured, so that the program's own pages are in the browser's cache as on any second visit.
for (const [, address] of views.slice(0, 4)) await page.goto(cluster.url + address);
/** What the server has worked so far, in ms of a processor; the system counts by 10 ms. */
function cpuOf({ children }) {
  const stat = readFileSync(`/proc/${children.get("server").pid}/stat`, "utf8");
  const [user, system] = stat.slice(stat.lastIndexOf(")")).split(" ").slice(12, 14).map(Number);
  return (user + system) * 10;
}

/** Opens a view; the page's own time from the begin of loading until it shows, and its longest and largest answers. */
async function open(address, shown) {
  const before = cpuOf(cluster);
  await page.goto(cluster.url + address, { waitUntil: "commit" });
  // Looked for at every frame: a test that asks now and then would measure its own waits.
  const told = await page.waitForFunction(
    (shown) => {
      const text = shown.startsWith("text=") ? shown.slice(5) : null;
      const is =
        text === null
          ? document.querySelector(shown) !== null
          : document.querySelector("main")?.textContent.includes(text);
      if (!is) return null;
      const answers = performance
        .getEntriesByType("resource")
        .filter(({ name }) => name.includes("/api/") && !name.includes("/watch"));
      const most = (what) => Math.round(Math.max(0, ...answers.map((answer) => answer[what])));
      return {
        shown: Math.round(performance.now()),
        longest: most("duration"),
        largest: most("decodedBodySize"),
      };
    },
    shown,
    { polling: "raf" },
  );
  return { ...(await told.jsonValue()), cpu: cpuOf(cluster) - before };
}

for (const [name, address, shown] of views.filter(isChosen)) {
  const turns = [];
  for (let turn = 0; turn < 3; turn++) turns.push(await open(address, shown));
  turns.sort((a, b) => a.shown - b.shown);
  const [, middle] = turns;
  if (middle.shown > FIRST_VIEW) bad.push(`${name}: ${middle.shown} ms to the first view`);
  if (middle.largest > ANSWER) bad.push(`${name}: an answer of ${middle.largest} bytes`);
  if (middle.cpu > CPU) bad.push(`${name}: ${middle.cpu} ms of the server's processor`);
  console.log(
    `view   ${String(middle.shown).padStart(5)} ms  ${name} (${turns.map((turn) => turn.shown).join(", ")}); ` +
      `its longest answer ${middle.longest} ms, its largest ${Math.round(middle.largest / 1_000)} kB, the server worked ${middle.cpu} ms`,
  );
}

/** Scrolls by wheel for a while; the longest time between two frames, and how far it came. */
async function scroll(address, turns, boxOf = ".long-rows", first = row) {
  await page.goto(cluster.url + address);
  await page.locator(first).first().waitFor();
  const box = page.locator(boxOf).first();
  await box.hover();
  await page.evaluate(() => {
    window.frames_ = [];
    let before = performance.now();
    const tick = (now) => {
      window.frames_.push(now - before);
      before = now;
      window.going = requestAnimationFrame(tick);
    };
    window.going = requestAnimationFrame(tick);
  });
  // Some ten windows a second: faster than anybody reads.
  for (let turn = 0; turn < turns; turn++) await page.mouse.wheel(0, 600);
  const told = await page.evaluate(() => {
    cancelAnimationFrame(window.going);
    const sorted = window.frames_.slice(1).sort((a, b) => a - b);
    return { longest: sorted.at(-1), p95: sorted[Math.floor(sorted.length * 0.95)] };
  });
  const counted = page.locator("[data-loaded]");
  const loaded = (await counted.count()) > 0 ? await counted.getAttribute("data-loaded") : "its";
  const top = await box.evaluate((element) => element.scrollTop);
  return { ...told, loaded, top };
}
for (const [name, address, turns, boxOf, first] of [
  ["Jobs", "/jobs", 400],
  ["Runs", "/runs", 400],
  ["Runs of the job with 200,000", "/runs?job=payments%2Fbulk-00000", 400],
  ["Shards of 100,000", `/runs/${huge}`, 60, "[role=grid]", ".grid-cell[data-state]"],
  ["Gantt of 100,000", `/runs/${huge}?view=gantt`, 200, ".gantt [role=region]", ".gantt-row"],
].filter(isChosen)) {
  const { longest, p95, loaded, top } = await scroll(address, turns, boxOf, first);
  if (longest > FRAME) bad.push(`${name}: ${longest.toFixed(0)} ms between two frames`);
  console.log(
    `scroll ${longest.toFixed(0).padStart(5)} ms  ${name}: the longest frame; 95% under ${p95.toFixed(0)} ms, ` +
      `${loaded} rows read, ${top.toFixed(0)} px`,
  );
  if (top < (name.endsWith("100,000") ? 2_000 : 20_000))
    bad.push(`${name}: it went only ${top} px down`);
}
const session = await context.newCDPSession(page);
const { usedSize } = await session.send("Runtime.getHeapUsage");
console.log(
  `heap   ${(usedSize / 1e6).toFixed(0).padStart(5)} MB  held by the page's scripts at the end`,
);
if (usedSize / 1e6 > HEAP) bad.push("the page's scripts hold too much");
await page.screenshot({ path: new URL("./shots/scale.png", import.meta.url).pathname });
await browser.close();
await cluster.stop();
if (bad.length > 0) {
  console.log(`FAILED\n  ${bad.join("\n  ")}`);
  process.exit(1);
}
console.log("console at scale: ok");
