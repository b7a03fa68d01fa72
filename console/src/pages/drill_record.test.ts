import { describe, expect, it } from "vitest";
import { differing, digestsOf, drillsOf, findingOf, pictureOf, recordOf } from "./drill_record";

const spread = "{ count: 1, p50_ms: 2, p99_ms: 3, max_ms: 4 }";
const record = (over: Record<string, string> = {}) => `
topic: a worker dies
claim: nothing is lost
conditions: { drill: kill-worker, changed: "${over.changed ?? "failure"}", seed: "${over.seed ?? "1"}" }
execution: { command: sichen drill run, began: "2026-11-30T19:17:03Z", took_ms: 5, cluster: one, faults: [] }
evidence: { plan.yaml: ${over.digest ?? "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"}, gone.log: "00" }
pass_when: ["it holds: always"]
stop_when: []
observed_result:
  verdict: passed
  findings: ["ok: it holds: always: 22 of 22"]
  measures: { lateness_calm: ${spread}, lateness_near_faults: ${spread}, takeover: ${spread}, recovery: ${spread}, attempts: 1, repeats: 0, refused: 0 }
first_deviation: null
not_covered: []
`;

const at = (path: string, text: string) => ({
  path,
  file: new File([text], path.split("/").at(-1) ?? path),
});

describe("evidence folders", () => {
  it("are found wherever they stand in what was opened, and none is left out unsaid", async () => {
    const { drills, unread } = await drillsOf([
      at("four/failure/record.yaml", record()),
      at("four/failure/plan.yaml", "abc"),
      at("four/normal/record.yaml", record({ changed: "normal" })),
      at("four/broken/record.yaml", "topic: [1"),
      at("four/other/record.yaml", "a: 1"),
      at("notes.txt", "x"),
    ]);
    expect(drills.map(({ folder }) => folder)).toEqual(["four/failure", "four/normal"]);
    expect(unread.map(({ folder }) => folder)).toEqual(["four/broken", "four/other"]);
    expect([...(drills[0]?.files.keys() ?? [])]).toEqual(["record.yaml", "plan.yaml"]);
  });
  it("are judged by the digests that their record has", async () => {
    const opened = [at("d/record.yaml", record()), at("d/plan.yaml", "abc")];
    const [drill] = (await drillsOf(opened)).drills;
    if (drill === undefined) throw new Error("no drill");
    expect([...(await digestsOf(drill))]).toEqual([
      ["plan.yaml", "same"],
      ["gone.log", "missing"],
    ]);
    drill.files.set("plan.yaml", new File(["abd"], "plan.yaml"));
    expect((await digestsOf(drill)).get("plan.yaml")).toBe("other");
  });
  it("give their picture as data in which nothing runs", async () => {
    const svg = '<svg xmlns="http://www.w3.org/2000/svg"><script>1</script></svg>';
    const [drill] = (await drillsOf([at("record.yaml", record()), at("timeline.svg", svg)])).drills;
    const address = drill && (await pictureOf(drill));
    expect(address).toMatch(/^data:image\/svg\+xml;charset=utf-8,%3Csvg/);
  });
});

describe("records", () => {
  it("are compared by their conditions", () => {
    const [a, b, c] = [record(), record({ changed: "normal" }), record({ seed: "2" })].map(
      recordOf,
    );
    if (!a || !b || !c) throw new Error("unread");
    expect(differing([a, a])).toEqual([]);
    expect(differing([a, b])).toEqual([["changed", ["failure", "normal"]]]);
    expect(differing([a, b, c]).map(([name]) => name)).toEqual(["changed", "seed"]);
  });
  it("say what had to hold apart from what was seen, colons or not", () => {
    const claims = ["it holds: always"];
    expect(findingOf("ok: it holds: always: 22 of 22", claims)).toEqual({
      isOk: true,
      claim: "it holds: always",
      seen: "22 of 22",
    });
    expect(findingOf("NOT SO: something new", claims)).toEqual({
      isOk: false,
      claim: "something new",
      seen: "",
    });
  });
});
