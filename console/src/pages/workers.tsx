// Workers that are connected, by pool.
import { Code, Group, Progress, Select, Stack, Table, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useSearchParams } from "react-router";
import type { Worker } from "../api/client";
import { query } from "../api/queries";
import { useWords } from "../i18n/words";
import { Instant } from "../time/zone";
import { Empty, Loaded } from "../ui/loaded";
import { Fact, Facts, Page, Rows, Section } from "../ui/parts";
import { State } from "../ui/state";
import { Work } from "./work";

interface Sum {
  workers: number;
  draining: number;
  held: number;
  slots: number;
}

function pools(workers: Worker[]): [string, Sum][] {
  const sums = new Map<string, Sum>();
  for (const worker of workers) {
    const sum = sums.get(worker.pool) ?? { workers: 0, draining: 0, held: 0, slots: 0 };
    sum.workers += 1;
    sum.draining += Number(worker.draining);
    sum.held += worker.held;
    sum.slots += worker.slots;
    sums.set(worker.pool, sum);
  }
  return [...sums].sort(([a], [b]) => a.localeCompare(b));
}

export default function Workers() {
  const { workers, words } = useWords();
  const [params, setParams] = useSearchParams();
  const session = params.get("session");
  const pool = params.get("pool");
  const asked = useQuery(query.workers());
  const change = (name: string, value: string | null) =>
    setParams((old) => {
      const fresh = new URLSearchParams(old);
      if (value === null) fresh.delete(name);
      else fresh.set(name, value);
      return fresh;
    });
  const names = pools(asked.data?.items ?? []).map(([name]) => name);
  return (
    <Page
      title={workers.title}
      aside={
        <Select
          size="xs"
          w={170}
          aria-label={words.pool}
          placeholder={workers.anyPool}
          clearable
          value={pool}
          onChange={(value) => change("pool", value)}
          data={pool === null || names.includes(pool) ? names : [...names, pool]}
        />
      }
    >
      <Loaded asked={asked}>
        {({ items }) => {
          const shown = items.filter((worker) => pool === null || worker.pool === pool);
          return shown.length === 0 ? (
            <Empty
              action={<Code>sichen worker --builtin{pool !== null && ` --pool ${pool}`}</Code>}
            >
              {pool === null ? workers.none : workers.noneInPool}
            </Empty>
          ) : (
            <Stack>
              <Pools items={shown} />
              <All items={shown} />
            </Stack>
          );
        }}
      </Loaded>
      <Work
        session={session === null ? null : Number(session)}
        worker={asked.data?.items.find((one) => String(one.session) === session)}
        close={() => change("session", null)}
      />
    </Page>
  );
}

function Pools({ items }: { items: Worker[] }) {
  const { workers, words } = useWords();
  return (
    <Section title={workers.pools}>
      <Facts>
        {pools(items).map(([pool, sum]) => (
          <Fact key={pool} word={pool}>
            <Stack gap={4}>
              <span>
                {workers.count(sum.workers)} · {workers.slots} {workers.used(sum.held, sum.slots)}
                {sum.draining > 0 && ` · ${workers.drainingCount(sum.draining)}`}
              </span>
              <Progress
                value={(100 * sum.held) / Math.max(1, sum.slots)}
                aria-label={`${words.pool} ${pool}: ${workers.used(sum.held, sum.slots)}`}
              />
            </Stack>
          </Fact>
        ))}
      </Facts>
    </Section>
  );
}

function All({ items }: { items: Worker[] }) {
  const { workers, words, nav } = useWords();
  return (
    <Section title={nav.workers}>
      <Rows
        label={nav.workers}
        heads={[
          words.name,
          words.state,
          words.pool,
          workers.slots,
          workers.handlers,
          workers.labels,
          workers.resources,
          workers.registered,
          workers.expires,
        ]}
        minWidth={1120}
      >
        {items.map((worker) => (
          <Row key={worker.session} worker={worker} />
        ))}
      </Rows>
    </Section>
  );
}

/** Handlers of a worker that its row names; its page has all of them. */
const NAMED = 6;

function Row({ worker }: { worker: Worker }) {
  const { workers, work } = useWords();
  const [params] = useSearchParams();
  const fresh = new URLSearchParams(params);
  fresh.set("session", String(worker.session));
  const beyond = worker.handlers.length - NAMED;
  return (
    <Table.Tr>
      <Table.Td>
        <Link to={`?${fresh}`} className="plain-link" title={work.show}>
          {worker.name}
        </Link>
      </Table.Td>
      <Table.Td>
        <State state={worker.draining ? "draining" : "connected"} />
      </Table.Td>
      <Table.Td>{worker.pool}</Table.Td>
      <Table.Td>
        <Group gap="xs" wrap="nowrap">
          <Progress value={(100 * worker.held) / Math.max(1, worker.slots)} w={60} aria-hidden />
          <Text size="sm" style={{ whiteSpace: "nowrap" }}>
            {workers.used(worker.held, worker.slots)}
          </Text>
        </Group>
      </Table.Td>
      <Table.Td>
        <Group gap={4}>
          {worker.handlers.slice(0, NAMED).map((handler) => (
            <span key={handler} className="tag">
              {handler}
            </span>
          ))}
          {beyond > 0 && <span className="dimmed small">{workers.others(beyond)}</span>}
        </Group>
      </Table.Td>
      <Table.Td>
        <Pairs of={worker.labels} />
      </Table.Td>
      <Table.Td>
        <Pairs of={worker.resources} />
      </Table.Td>
      <Table.Td>
        <Instant at={worker.registered_at} />
      </Table.Td>
      <Table.Td>
        <Instant at={worker.expires_at} />
      </Table.Td>
    </Table.Tr>
  );
}

/** Names with their values, such as labels. */
export function Pairs({ of }: { of: Record<string, string> | undefined }) {
  const pairs = Object.entries(of ?? {});
  if (pairs.length === 0) return <span className="dimmed">–</span>;
  return (
    <Group gap={4}>
      {pairs.map(([name, value]) => (
        <span key={name} className="tag">
          {name}={value}
        </span>
      ))}
    </Group>
  );
}
