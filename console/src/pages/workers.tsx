// Workers that are connected, by pool.
import { Code, Group, Progress, Stack, Table, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useSearchParams } from "react-router";
import type { Worker } from "../api/client";
import { query } from "../api/queries";
import { useWords } from "../i18n/words";
import { Instant } from "../time/zone";
import { Empty, Loaded } from "../ui/loaded";
import { Fact, Page, Rows, Section } from "../ui/parts";
import { State } from "../ui/state";
import { Work } from "./work";

function pools(workers: Worker[]) {
  const sums = new Map<string, { workers: number; held: number; slots: number }>();
  for (const worker of workers) {
    const sum = sums.get(worker.pool) ?? { workers: 0, held: 0, slots: 0 };
    sum.workers += 1;
    sum.held += worker.held;
    sum.slots += worker.slots;
    sums.set(worker.pool, sum);
  }
  return [...sums].sort(([a], [b]) => a.localeCompare(b));
}

export default function Workers() {
  const { workers, words, nav, work } = useWords();
  const [params, setParams] = useSearchParams();
  const session = params.get("session");
  const asked = useQuery(query.workers());
  return (
    <Page title={workers.title}>
      <Loaded asked={asked}>
        {({ items }) =>
          items.length === 0 ? (
            <Empty action={<Code>sichen worker --builtin</Code>}>{workers.none}</Empty>
          ) : (
            <Stack>
              <Section title={workers.pools}>
                <Group gap="xl">
                  {pools(items).map(([pool, sum]) => (
                    <Fact key={pool} word={pool}>
                      {words.number(sum.workers)} · {workers.slots}{" "}
                      {workers.used(sum.held, sum.slots)}
                    </Fact>
                  ))}
                </Group>
              </Section>
              <Section title={nav.workers}>
                <Rows
                  label={nav.workers}
                  heads={[
                    words.name,
                    words.state,
                    words.pool,
                    workers.slots,
                    workers.handlers,
                    workers.registered,
                    workers.expires,
                    words.session,
                  ]}
                >
                  {items.map((worker) => (
                    <Table.Tr key={worker.session}>
                      <Table.Td>
                        <Link
                          to={`?session=${worker.session}`}
                          className="plain-link"
                          title={work.show}
                        >
                          {worker.name}
                        </Link>
                      </Table.Td>
                      <Table.Td>
                        <State state={worker.draining ? "draining" : "live"} />
                      </Table.Td>
                      <Table.Td>{worker.pool}</Table.Td>
                      <Table.Td>
                        <Group gap="xs" wrap="nowrap">
                          <Progress
                            value={(100 * worker.held) / Math.max(1, worker.slots)}
                            w={60}
                            aria-hidden
                          />
                          <Text size="sm" style={{ whiteSpace: "nowrap" }}>
                            {workers.used(worker.held, worker.slots)}
                          </Text>
                        </Group>
                      </Table.Td>
                      <Table.Td>
                        <Group gap={4}>
                          {worker.handlers.map((handler) => (
                            <span key={handler} className="tag">
                              {handler}
                            </span>
                          ))}
                        </Group>
                      </Table.Td>
                      <Table.Td>
                        <Instant at={worker.registered_at} />
                      </Table.Td>
                      <Table.Td>
                        <Instant at={worker.expires_at} />
                      </Table.Td>
                      <Table.Td>{worker.session}</Table.Td>
                    </Table.Tr>
                  ))}
                </Rows>
              </Section>
            </Stack>
          )
        }
      </Loaded>
      <Work
        session={session === null ? null : Number(session)}
        worker={asked.data?.items.find((one) => String(one.session) === session)}
        close={() => setParams({})}
      />
    </Page>
  );
}
