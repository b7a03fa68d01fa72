// Who changed what, newest first; each change opens with what was before it and after.
import { Group, Select, TextInput } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { Link, useSearchParams } from "react-router";
import type { ChangeMade } from "../api/client";
import { query, shownJob } from "../api/queries";
import { useWords } from "../i18n/words";
import { Instant } from "../time/zone";
import { itemsOf } from "../ui/listing";
import { Empty, Loaded, Loading } from "../ui/loaded";
import { LongRows } from "../ui/long_rows";
import { JobLink, jobAddress, More, Section, To } from "../ui/parts";
import { ChangeDrawer } from "./audit_change";
import { capacityAddress } from "./capacities";

const KINDS = [
  "job",
  "run",
  "shard",
  "calendar",
  "backfill",
  "capacity",
  "namespace",
  "access_token",
] as const;

export function Changes() {
  const { audit } = useWords();
  const [params, setParams] = useSearchParams();
  const entity = params.get("entity") ?? undefined;
  const actor = params.get("actor") ?? undefined;
  const seq = Number(params.get("change"));
  const [text, setText] = useState(actor ?? "");
  const [settled] = useDebouncedValue(text, 400);
  const change = (name: string, value: string | null | undefined) =>
    setParams((old) => {
      const fresh = new URLSearchParams(old);
      if (value) fresh.set(name, value);
      else fresh.delete(name);
      return fresh;
    });
  useEffect(() => {
    if (settled !== (actor ?? "")) change("actor", settled);
  }, [settled]);
  return (
    <>
      <Group align="flex-end">
        <TextInput
          size="xs"
          label={audit.who}
          placeholder="token ci"
          value={text}
          onChange={(event) => setText(event.currentTarget.value)}
        />
        <Select
          size="xs"
          label={audit.what}
          placeholder={audit.any}
          clearable
          value={entity ?? null}
          onChange={(value) => change("entity", value)}
          data={KINDS.map((value) => ({ value, label: audit.kinds[value] }))}
        />
      </Group>
      <List actor={actor} entity={entity} />
      <ChangeDrawer seq={seq > 0 ? seq : null} close={() => change("change", null)} />
    </>
  );
}

/** Pages that are looked through without being asked: a cancelled run alone may fill several. */
const PAGES_UNASKED = 10;

const cells = (change: ChangeMade) => <Cells change={change} />;

function List({ actor, entity }: { actor?: string; entity?: string }) {
  const { audit } = useWords();
  const wanted = query.changes({ actor, entity });
  const asked = useInfiniteQuery(wanted);
  const items = itemsOf(asked);
  const looked = asked.data?.pages.length ?? 0;
  const goOn = items.length === 0 && asked.hasNextPage && looked < PAGES_UNASKED;
  useEffect(() => {
    if (goOn && !asked.isFetching) void asked.fetchNextPage();
  }, [goOn, asked.isFetching]);
  return (
    <Section title={audit.changes}>
      <Loaded asked={asked}>
        {() =>
          items.length === 0 ? (
            // The server looks at so many events at a time: nothing yet is not nothing at all.
            <>
              {goOn ? (
                <Loading />
              ) : (
                <Empty>{asked.hasNextPage ? audit.searching : audit.none}</Empty>
              )}
              {!goOn && <More asked={asked} word={audit.earlier} />}
            </>
          ) : (
            <LongRows
              label={audit.changes}
              columns={[
                { head: audit.when, part: 250 },
                { head: audit.who, part: 140 },
                { head: audit.did, part: 160 },
                { head: audit.object, part: 220 },
                { head: audit.details, part: 300 },
              ]}
              rows={items}
              keyOf={({ event }) => event.seq}
              row={cells}
              asked={asked}
              queryKey={wanted.queryKey}
              height={37}
            />
          )
        }
      </Loaded>
    </Section>
  );
}

function Cells({ change }: { change: ChangeMade }) {
  const { audit } = useWords();
  const { event } = change;
  const said = details(change);
  return (
    <>
      <td>
        <Instant at={event.at} />
      </td>
      <td title={event.actor}>{event.actor}</td>
      <td>
        <Opens seq={event.seq}>
          {(audit.events as Record<string, string>)[event.kind] ?? event.kind}
        </Opens>
      </td>
      <td>
        <Of change={change} />
      </td>
      <td className="dimmed small" title={said}>
        {said}
      </td>
    </>
  );
}

/** A link to what one change was, in the address that is shown. */
function Opens({ seq, children }: { seq: number; children: string }) {
  const { audit } = useWords();
  const [params] = useSearchParams();
  const fresh = new URLSearchParams(params);
  fresh.set("change", String(seq));
  return (
    <Link to={`?${fresh}`} className="plain-link" title={audit.showChange}>
      {children}
    </Link>
  );
}

/** What was changed, as a link where it has a page. */
export function Of({ change: { event, namespace, job } }: { change: ChangeMade }) {
  const name = namespace != null && job != null ? { namespace, name: job } : null;
  const shown = name === null ? event.id : shownJob(name);
  switch (event.entity) {
    case "job":
      // One that was deleted has no page; its name may be another's by now.
      return name === null || event.to === "deleted" ? (
        shown
      ) : (
        <To to={jobAddress(name)}>{shown}</To>
      );
    case "run":
      return (
        <>
          <To to={`/runs/${event.id}`}>#{event.id}</To> {name && <JobLink job={name} />}
        </>
      );
    case "shard": {
      const [run, no] = event.id.split("/");
      return (
        <>
          <To to={`/runs/${run}?shard=${no}`}>{event.id}</To> {name && <JobLink job={name} />}
        </>
      );
    }
    case "backfill":
      return (
        <>
          <To to={`/backfills/${event.id}`}>#{event.id}</To> {name && <JobLink job={name} />}
        </>
      );
    case "capacity":
      return <To to={capacityAddress(event.id)}>{event.id}</To>;
    case "calendar":
      return <To to={`/calendars/${event.id}`}>{event.id}</To>;
    default:
      return event.id;
  }
}

/** What the event says beyond its kind: its cause and its plain data. */
export function details({ event }: Pick<ChangeMade, "event">): string {
  const data = event.data as Record<string, unknown>;
  const hidden = new Set(["high_water", "namespace", "name", "zones", "job", "plan", "waits"]);
  const said = Object.entries(data)
    .filter(([key, value]) => !hidden.has(key) && value != null && value !== "")
    .map(([key, value]) => {
      const text = typeof value === "object" ? JSON.stringify(value) : String(value);
      return `${key}: ${/_at$|^(from|to)$/.test(key) ? instantOf(value) : text}`;
    });
  return [event.cause, ...said].filter(Boolean).join(" · ");
}

/** Instants in events are microseconds since 1970. */
export function instantOf(value: unknown): string {
  const at = typeof value === "number" ? new Date(value / 1_000) : null;
  return at === null || Number.isNaN(at.getTime()) ? String(value) : at.toISOString();
}
