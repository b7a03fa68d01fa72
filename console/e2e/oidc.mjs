// Logging in by a real provider at a real server, as a browser would, without one: `node e2e/oidc.mjs PROGRAM`.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startProvider } from "./provider.mjs";

const program = process.argv[2];
const dir = mkdtempSync(join(tmpdir(), "sichen-oidc-"));
const sp = 7199,
  pp = 7198;
const url = `http://127.0.0.1:${sp}`;
const provider = await startProvider(pp, url, "a-long-secret-of-a-client-0123456789", (id) =>
  id === "eve" ? [] : ["ops"],
);
writeFileSync(`${dir}/secret`, "a-long-secret-of-a-client-0123456789\n", { mode: 0o600 });
writeFileSync(
  `${dir}/oidc.yaml`,
  `name: Test\nissuer: ${provider.issuer}\nclient_id: sichen\nclient_secret_file: ${dir}/secret\nconsole: ${url}\nscopes: [profile, groups]\nroles:\n  - { claim: groups, value: ops, namespace: '*', role: operator }\n`,
);
const server = spawn(
  program,
  ["server", "--data", `${dir}/data`, "--listen", `127.0.0.1:${sp}`, "--oidc", `${dir}/oidc.yaml`],
  { stdio: ["ignore", "pipe", "inherit"] },
);
await new Promise((r) => server.stdout.once("data", r));
async function walk(name) {
  const jars = {};
  const ask = async (u, init = {}) => {
    const o = new URL(u).origin;
    jars[o] ??= {};
    const cookie = Object.entries(jars[o])
      .map(([k, v]) => `${k}=${v}`)
      .join("; ");
    const a = await fetch(u, {
      ...init,
      redirect: "manual",
      headers: { ...(init.headers ?? {}), cookie },
    });
    for (const set of a.headers.getSetCookie()) {
      const [k, ...v] = set.split(";")[0].split("=");
      if (v.join("=") === "") delete jars[o][k];
      else jars[o][k] = v.join("=");
    }
    return a;
  };
  let u = `${url}/api/v1/login/oidc`,
    a;
  for (let i = 0; i < 20; i++) {
    a = await ask(u);
    if (a.status >= 300 && a.status < 400) {
      u = new URL(a.headers.get("location"), u).href;
      if (u.startsWith(url + "/#")) break;
      continue;
    }
    const text = await a.text();
    const action = text.match(/action="([^"]+)"/)[1].replaceAll("&amp;", "&");
    const prompt = text.match(/name="prompt" value="([^"]+)"/)[1];
    const body = new URLSearchParams(
      prompt === "login" ? { prompt, login: name, password: "x" } : { prompt },
    );
    a = await ask(new URL(action, u).href, { method: "POST", body });
    if (a.status >= 300) u = new URL(a.headers.get("location"), u).href;
  }
  const me = await (await ask(`${url}/api/v1/me`)).json();
  return { place: u.slice(url.length), me };
}
const zoe = await walk("zoe");
const eve = await walk("eve");
server.kill("SIGTERM");
provider.stop();
rmSync(dir, { recursive: true, force: true });
const right =
  zoe.place === "/#in" && zoe.me.actor === "user zoe" && eve.place === "/#refused=SC6043";
console.log(right ? "ok: a real provider lets in whom a rule fits, and nobody else" : { zoe, eve });
process.exit(right ? 0 : 1);
