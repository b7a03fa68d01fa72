// What the store's own rows say, asked past the server: numbers on the pages are compared with it.
import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";

/** The database of a server's data directory. */
export const databaseOf = (dir) => join(dir, "data", "sichen.db");

/** The rows that a statement answers with, as objects. Reads only. */
export function rows(database, statement) {
  if (!existsSync(database)) throw new Error(`there is no ${database}`);
  const words = ["-readonly", "-json", "-cmd", ".timeout 5000", database, statement];
  const told = execFileSync("sqlite3", words, { encoding: "utf8", maxBuffer: 1 << 26 });
  return told.trim() === "" ? [] : JSON.parse(told);
}

/** The one number that a statement answers with. */
export function number(database, statement) {
  const [row] = rows(database, statement);
  return Number(Object.values(row ?? {})[0] ?? 0);
}

/** Carries statements out, all or none: to make many rows. */
export function write(database, statements) {
  execFileSync("sqlite3", ["-bail", database], {
    input: `pragma foreign_keys = on; begin immediate;\n${statements}\ncommit;\n`,
    encoding: "utf8",
    maxBuffer: 1 << 26,
  });
}
