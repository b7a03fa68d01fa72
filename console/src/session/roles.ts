// What roles allow: each holds all that the ones before it hold.
//
// Invariants: this only spares people a refusal; the server judges every request by itself.

export const ROLES = ["viewer", "operator", "editor", "admin"] as const;
export type Role = (typeof ROLES)[number];

/** All namespaces, and the cluster as a whole. */
export const EVERYWHERE = "*";

interface RoleIn {
  namespace: string;
  role: string;
}

/** Whether `held` has at least `least` in `namespace`, or in any if none is named. */
export function allows(held: readonly RoleIn[], least: Role, namespace?: string): boolean {
  const rank = (role: string) => ROLES.indexOf(role as Role);
  return held.some(
    (one) =>
      rank(one.role) >= rank(least) &&
      (namespace === undefined || one.namespace === EVERYWHERE || one.namespace === namespace),
  );
}
