// What a text in the search box may name.
//
// Not here: whether there is such a thing (the server says).

export type Wanted =
  | { kind: "run"; id: string }
  | { kind: "job"; namespace: string; name: string }
  | { kind: "jobs"; search: string };

const NAME = /^[a-z0-9]([a-z0-9._-]*[a-z0-9])?$/;

/** A run's number, trace id (or a whole `traceparent`) or key, a job's name, or a part of one. */
export function wanted(text: string): Wanted | null {
  const given = text.trim().replace(/^#(?=\d+$)/, "");
  if (given === "") return null;
  if (/^\d{1,19}$/.test(given)) return { kind: "run", id: given };
  const parent = /^[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}$/i.exec(given);
  if (parent?.[1]) return { kind: "run", id: parent[1].toLowerCase() };
  if (/^[0-9a-f]{32}$/i.test(given)) return { kind: "run", id: given.toLowerCase() };
  if (/^[^:\s]+:.+$/.test(given)) return { kind: "run", id: given };
  const [first, second, ...more] = given.split("/");
  if (first && second && more.length === 0 && NAME.test(first) && NAME.test(second)) {
    return { kind: "job", namespace: first, name: second };
  }
  return { kind: "jobs", search: given };
}
