// Which keys of the cache an event touches (`queries.ts` has the keys).
import type { Event } from "./client";

/** The beginnings of the keys that an event makes stale. */
export function touched(event: Pick<Event, "entity" | "id">): (string | number)[][] {
  switch (event.entity) {
    case "run":
      return [
        ["run", event.id],
        ["explain", event.id],
        ["runs"],
        ["overview"],
        ["dead-letters"],
        ["job"],
        ["jobs"],
        ["changes"],
      ];
    case "shard": {
      const [run = "", no = ""] = event.id.split("/");
      return [
        ["run", run],
        ["explain", run],
        ["shards", run],
        ["attempts", run, Number(no)],
        ["workers"],
      ];
    }
    case "job":
      return [["job"], ["jobs"], ["overview"], ["changes"]];
    case "session":
      return [["workers"], ["overview"]];
    case "node":
    case "duty":
      return [["members"], ["server"]];
    case "calendar":
      return [["calendar"], ["calendars"], ["job"], ["changes"]];
    case "backfill":
      return [["backfill", event.id], ["backfills"], ["changes"]];
    case "capacity":
      return [["capacity", event.id], ["capacities"], ["changes"]];
    case "namespace":
      return [["namespaces"], ["changes"]];
    case "access_token":
      return [["tokens"], ["me"], ["changes"]];
    default:
      return [];
  }
}
