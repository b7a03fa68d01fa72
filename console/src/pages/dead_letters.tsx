// Shards that failed for good: retried or struck off, many at once.
import { Alert, Checkbox, Group, Table, Text, TextInput } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { useSearchParams } from "react-router";
import { act } from "../api/actions";
import type { DeadLetter } from "../api/client";
import { query } from "../api/queries";
import { useWords } from "../i18n/words";
import { Instant } from "../time/zone";
import { Confirm, Effect } from "../ui/confirm";
import { itemsOf, Listing } from "../ui/listing";
import { MayButton } from "../ui/may";
import { JobLink, Page, Rows, Section, To } from "../ui/parts";

/** The most shards of one run that one request may name. */
const MAX_SHARDS = 500;

const nameOf = (letter: DeadLetter) => `${letter.run}/${letter.shard.no}`;

/** The letters as requests: by run, each with no more shards than one request takes. */
export function requests(letters: DeadLetter[]): { run: number; shards: number[] }[] {
  const byRun = new Map<number, number[]>();
  for (const letter of letters) {
    byRun.set(letter.run, [...(byRun.get(letter.run) ?? []), letter.shard.no]);
  }
  const all: { run: number; shards: number[] }[] = [];
  for (const [run, shards] of byRun) {
    for (let from = 0; from < shards.length; from += MAX_SHARDS) {
      all.push({ run, shards: shards.slice(from, from + MAX_SHARDS) });
    }
  }
  return all;
}

export default function DeadLetters() {
  const { dead, runs, words } = useWords();
  const [params, setParams] = useSearchParams();
  const job = params.get("job") ?? undefined;
  const code = params.get("code") ?? undefined;
  const [jobText, setJobText] = useState(job ?? "");
  const [codeText, setCodeText] = useState(code ?? "");
  const [settledJob] = useDebouncedValue(jobText, 400);
  const [settledCode] = useDebouncedValue(codeText, 400);
  useEffect(() => {
    if (settledJob === (job ?? "") && settledCode === (code ?? "")) return;
    const fresh = new URLSearchParams();
    if (settledJob) fresh.set("job", settledJob);
    if (settledCode) fresh.set("code", settledCode);
    setParams(fresh, { replace: true });
  }, [settledJob, settledCode]);
  const asked = useInfiniteQuery(query.deadLetters({ job, code }));
  const items = itemsOf(asked);
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [asking, setAsking] = useState<"retry" | "discard" | null>(null);
  const picked = items.filter((letter) => chosen.has(nameOf(letter)));
  const toggle = (name: string) =>
    setChosen((old) => {
      const fresh = new Set(old);
      if (!fresh.delete(name)) fresh.add(name);
      return fresh;
    });
  const all = picked.length === items.length && items.length > 0;
  return (
    <Page
      title={dead.title}
      aside={
        <>
          <Text size="sm" c="dimmed" role="status">
            {picked.length > 0 && dead.selected(picked.length)}
          </Text>
          <MayButton
            needs="operator"
            size="xs"
            disabled={picked.length === 0}
            onClick={() => setAsking("retry")}
          >
            {dead.retry}
          </MayButton>
          <MayButton
            needs="operator"
            size="xs"
            variant="outline"
            color="red"
            disabled={picked.length === 0}
            onClick={() => setAsking("discard")}
          >
            {dead.discard}
          </MayButton>
        </>
      }
    >
      <Group>
        <TextInput
          size="xs"
          w={260}
          label={runs.job}
          value={jobText}
          onChange={(event) => setJobText(event.currentTarget.value)}
        />
        <TextInput
          size="xs"
          label={dead.code}
          value={codeText}
          onChange={(event) => setCodeText(event.currentTarget.value)}
        />
      </Group>
      <Section title={dead.title}>
        <Listing asked={asked} none={dead.none}>
          {() => (
            <Rows
              label={dead.title}
              heads={[
                <Checkbox
                  key="all"
                  size="xs"
                  aria-label={words.allJobs}
                  checked={all}
                  indeterminate={picked.length > 0 && !all}
                  onChange={() => setChosen(all ? new Set() : new Set(items.map(nameOf)))}
                />,
                dead.shard,
                words.job,
                dead.code,
                dead.message,
                dead.when,
              ]}
            >
              {items.map((letter) => (
                <Table.Tr key={nameOf(letter)}>
                  <Table.Td>
                    <Checkbox
                      size="xs"
                      aria-label={dead.choose(nameOf(letter))}
                      checked={chosen.has(nameOf(letter))}
                      onChange={() => toggle(nameOf(letter))}
                    />
                  </Table.Td>
                  <Table.Td>
                    <To to={`/runs/${letter.run}?shard=${letter.shard.no}`}>{nameOf(letter)}</To>
                  </Table.Td>
                  <Table.Td>
                    <JobLink job={{ namespace: letter.namespace, name: letter.job }} />
                  </Table.Td>
                  <Table.Td>{letter.shard.failure?.code}</Table.Td>
                  <Table.Td style={{ maxWidth: 420 }}>
                    <Text size="sm" lineClamp={2}>
                      {letter.shard.failure?.message}
                    </Text>
                  </Table.Td>
                  <Table.Td>
                    <Instant at={letter.shard.ended_at} />
                  </Table.Td>
                </Table.Tr>
              ))}
            </Rows>
          )}
        </Listing>
      </Section>
      <Acting
        letters={picked}
        asking={asking}
        close={() => setAsking(null)}
        done={() => setChosen(new Set())}
      />
    </Page>
  );
}

function Acting({
  letters,
  asking,
  close,
  done,
}: {
  letters: DeadLetter[];
  asking: "retry" | "discard" | null;
  close: () => void;
  done: () => void;
}) {
  const { dead } = useWords();
  const [reason, setReason] = useState("");
  const [by, setBy] = useState("");
  const count = letters.length;
  /** All of them are tried: one that is refused keeps none of its neighbours back. */
  const each = async (one: (run: string, shards: number[]) => Promise<unknown>) => {
    const results = await Promise.allSettled(
      requests(letters).map(({ run, shards }) => one(String(run), shards)),
    );
    const refused = results.flatMap((result) =>
      result.status === "rejected" ? [result.reason] : [],
    );
    if (refused.length > 0) {
      const first = refused[0] instanceof Error ? refused[0].message : String(refused[0]);
      throw new Error(`${dead.some(refused.length)}: ${first}`);
    }
  };
  return (
    <>
      <Confirm
        opened={asking === "retry"}
        close={close}
        title={dead.retryTitle(count)}
        go={dead.retryGo}
        type={count > 1 ? { text: String(count), ask: dead.type(count) } : undefined}
        act={() => each((run, shards) => act.retryRun(run, shards))}
        done={done}
      >
        <Effect>{dead.retryEffect}</Effect>
      </Confirm>
      <Confirm
        opened={asking === "discard"}
        close={close}
        title={dead.discardTitle(count)}
        go={dead.discardGo}
        color="red"
        ready={reason.trim() !== ""}
        type={{ text: String(count), ask: dead.type(count) }}
        act={() => each((run, shards) => act.discard(run, shards, reason.trim(), by.trim()))}
        done={done}
      >
        <Alert color="red">{dead.discardEffect}</Alert>
        <TextInput
          label={dead.reason}
          required
          value={reason}
          onChange={(event) => setReason(event.currentTarget.value)}
        />
        <TextInput
          label={dead.by}
          value={by}
          onChange={(event) => setBy(event.currentTarget.value)}
        />
      </Confirm>
    </>
  );
}
