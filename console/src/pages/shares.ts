// What namespaces have of the workers' slots now, beside what their weights give them.

/** The weight of a namespace of which nothing was set. */
export const USUAL_WEIGHT = 100;

export interface Share {
  name: string;
  weight: number;
  running: number;
  /** Of all that runs, from 0 to 1. */
  now: number;
  /** Of the weights of all that run something, from 0 to 1; null for those that run nothing. */
  due: number | null;
}

/** Shares by name, of those that run something or of which something was set. */
export function shares(
  set: readonly { name: string; weight: number }[],
  held: readonly { namespace: string }[],
): Share[] {
  const running = new Map<string, number>();
  for (const { namespace } of held) running.set(namespace, (running.get(namespace) ?? 0) + 1);
  const weights = new Map(set.map(({ name, weight }) => [name, weight]));
  const weightOf = (name: string) => weights.get(name) ?? USUAL_WEIGHT;
  const all = [...running.keys()].reduce((sum, name) => sum + weightOf(name), 0);
  return [...new Set([...weights.keys(), ...running.keys()])].sort().map((name) => {
    const runs = running.get(name) ?? 0;
    return {
      name,
      weight: weightOf(name),
      running: runs,
      now: held.length === 0 ? 0 : runs / held.length,
      due: runs === 0 ? null : weightOf(name) / all,
    };
  });
}
