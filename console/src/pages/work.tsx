// What one worker runs now, in a drawer over the list of workers.
import { Drawer, Group, Stack, Table, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import type { Worker } from "../api/client";
import { query } from "../api/queries";
import { useWords } from "../i18n/words";
import { Instant } from "../time/zone";
import { Empty, Loaded } from "../ui/loaded";
import { Fact, Facts, JobLink, Rows, To } from "../ui/parts";
import { State } from "../ui/state";
import { Pairs } from "./workers";

export function Work({
  session,
  worker,
  close,
}: {
  session: number | null;
  /** Undefined if the session is over, or not known yet. */
  worker: Worker | undefined;
  close: () => void;
}) {
  const { work, words, state } = useWords();
  return (
    <Drawer
      opened={session !== null}
      onClose={close}
      position="right"
      size="xl"
      title={work.title(worker?.name ?? `${words.session} ${session}`)}
      closeButtonProps={{ "aria-label": state.close }}
    >
      {session !== null && (
        <Stack>
          {worker && <About worker={worker} />}
          <Running session={session} isOver={worker === undefined} />
          {worker && (
            <Text size="xs" c="dimmed">
              {work.drain}
            </Text>
          )}
        </Stack>
      )}
    </Drawer>
  );
}

function About({ worker }: { worker: Worker }) {
  const { workers, words, work } = useWords();
  return (
    <Facts>
      <Fact word={words.state}>
        <State state={worker.draining ? "draining" : "connected"} />
      </Fact>
      <Fact word={words.pool}>{worker.pool}</Fact>
      <Fact word={workers.slots}>{workers.used(worker.held, worker.slots)}</Fact>
      <Fact word={workers.labels}>
        <Pairs of={worker.labels} />
      </Fact>
      <Fact word={workers.resources}>
        <Pairs of={worker.resources} />
      </Fact>
      <Fact word={workers.handlers}>
        <Group gap={4}>
          {worker.handlers.map((handler) => (
            <span key={handler} className="tag">
              {handler}
            </span>
          ))}
        </Group>
      </Fact>
      <Fact word={words.session}>{worker.session}</Fact>
      <Fact word={work.incarnation}>{worker.incarnation}</Fact>
      <Fact word={workers.registered}>
        <Instant at={worker.registered_at} />
      </Fact>
    </Facts>
  );
}

function Running({ session, isOver }: { session: number; isOver: boolean }) {
  const { work, words } = useWords();
  const asked = useQuery(query.work(session));
  return (
    <Loaded asked={asked}>
      {({ items }) =>
        items.length === 0 ? (
          <Empty>{isOver ? work.over : work.none}</Empty>
        ) : (
          <Rows
            label={work.show}
            heads={[work.shard, words.job, work.attempt, work.progress, words.since]}
          >
            {items.map(({ namespace, job, shard }) => (
              <Table.Tr key={`${shard.run}/${shard.no}`}>
                <Table.Td>
                  <To to={`/runs/${shard.run}?shard=${shard.no}`}>
                    {shard.run}/{shard.no}
                  </To>
                </Table.Td>
                <Table.Td>
                  <JobLink job={{ namespace, name: job }} />
                </Table.Td>
                <Table.Td>{shard.attempt}</Table.Td>
                <Table.Td>
                  {shard.progress.expected == null
                    ? words.number(shard.progress.done)
                    : words.of(shard.progress.done, shard.progress.expected)}
                </Table.Td>
                <Table.Td>
                  <Instant at={shard.started_at} />
                </Table.Td>
              </Table.Tr>
            ))}
          </Rows>
        )
      }
    </Loaded>
  );
}
