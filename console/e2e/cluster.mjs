// A real server and real workers for one test, started from the built program on loopback.
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { front } from "./front.mjs";

/** Who is told of what: one who never answers, since nobody listens on that port. */
const ALERTS = `source: console
every: 1s
receivers:
  - { name: nobody, form: slack, url: "http://127.0.0.1:9/" }
rules:
  no_worker: { hold: 1s, clear: 1s }
`;

/** A port that nobody has at this moment. */
function freePort() {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

export class Cluster {
  constructor(program, dir, port) {
    this.program = program;
    this.dir = dir;
    this.port = port;
    this.url = `http://127.0.0.1:${port}`;
    this.children = new Map();
    this.said = [];
    // A test that fails on its way leaves nothing behind that holds its files.
    process.once("exit", () => {
      for (const child of this.children.values()) child.kill("SIGKILL");
    });
  }

  /** In a directory of its own that goes with it, or in `kept`, which stays. */
  static async start(program, kept) {
    const dir = kept ?? mkdtempSync(join(tmpdir(), "sichen-console-"));
    const cluster = new Cluster(program, dir, await freePort());
    cluster.isKept = kept !== undefined;
    // The pages that were built last, instead of those that the program has in it.
    if (process.env.SICHEN_DIST) {
      cluster.front = await front(cluster.port);
      cluster.url = `http://127.0.0.1:${cluster.front.port}`;
    }
    await cluster.startServer();
    return cluster;
  }

  run(name, words) {
    const child = spawn(this.program, words, {
      stdio: ["ignore", "pipe", "pipe"],
      env: { ...process.env, SICHEN_DATA: join(this.dir, "data"), RUST_LOG: "warn" },
    });
    for (const stream of [child.stdout, child.stderr]) {
      stream.on("data", (bytes) => this.said.push(`${name}: ${bytes}`));
    }
    this.children.set(name, child);
    child.once("exit", () => {
      if (this.children.get(name) === child) this.children.delete(name);
    });
    return child;
  }

  async startServer() {
    const alerts = join(this.dir, "alerts.yaml");
    writeFileSync(alerts, ALERTS);
    // Short beats, so that a lost worker is found within the test's patience.
    this.run("server", [
      "server",
      "--data",
      join(this.dir, "data"),
      "--listen",
      `127.0.0.1:${this.port}`,
      "--beat",
      "400ms",
      "--session-ttl",
      "2s",
      "--alerts",
      alerts,
    ]);
    await this.until("the server is ready", async () => {
      const told = await fetch(`${this.url}/readyz`).catch(() => null);
      return told?.ok;
    });
    this.token = readFileSync(join(this.dir, "data", "token"), "utf8").trim();
  }

  startWorker(name, slots, config, pool) {
    return this.run(name, [
      "worker",
      "--name",
      name,
      "--server",
      `http://127.0.0.1:${this.port}`,
      "--data",
      join(this.dir, name),
      "--join-token-file",
      join(this.dir, "data", "join-token"),
      "--slots",
      String(slots),
      "--builtin",
      ...(config ? ["--config", config] : []),
      ...(pool ? ["--pool", pool] : []),
    ]);
  }

  kill(name) {
    const child = this.children.get(name);
    return new Promise((resolve) => {
      if (!child) return resolve();
      child.once("exit", resolve);
      child.kill("SIGKILL");
    });
  }

  /** Asks the API, as the console's numbers are compared with what it says. */
  async api(path, options = {}) {
    const told = await fetch(`${this.url}/api/v1${path}`, {
      ...options,
      headers: { Authorization: `Bearer ${this.token}`, ...options.headers },
    });
    const body = await told.text();
    if (!told.ok) throw new Error(`${path}: ${told.status} ${body}`);
    return body === "" ? null : JSON.parse(body);
  }

  apply(yaml) {
    return this.api("/jobs:apply", { method: "POST", body: yaml });
  }

  async until(what, holds, seconds = 30) {
    const end = Date.now() + seconds * 1_000;
    for (;;) {
      const value = await holds();
      if (value) return value;
      if (Date.now() > end) throw new Error(`not within ${seconds} s: ${what}`);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }

  async stop() {
    const names = [...this.children.keys()];
    await Promise.all(names.map((name) => this.kill(name)));
    this.front?.server.close();
    this.front?.server.closeAllConnections();
    if (!this.isKept) rmSync(this.dir, { recursive: true, force: true });
  }
}
