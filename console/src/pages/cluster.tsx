// Server nodes, who owns which duty, the store and its clock.
import { Alert, Badge, Group, Stack, Table, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { act } from "../api/actions";
import type { Clock } from "../api/client";
import { query } from "../api/queries";
import { useWords } from "../i18n/words";
import { EVERYWHERE } from "../session/roles";
import { Instant } from "../time/zone";
import { Confirm, Effect } from "../ui/confirm";
import { Loaded } from "../ui/loaded";
import { MayButton } from "../ui/may";
import { Fact, Facts, Page, Rows, Section } from "../ui/parts";

function bytes(count: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let size = count;
  let unit = 0;
  while (size >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${size.toFixed(unit < 2 ? 0 : 1)} ${units[unit]}`;
}

export default function Cluster() {
  const { cluster, state } = useWords();
  const server = useQuery(query.server());
  const members = useQuery(query.members());
  const clock = useQuery(query.clock());
  return (
    <Page title={cluster.title}>
      <Stack>
        {clock.data?.held && <HeldClock clock={clock.data} />}
        <Section title={cluster.version}>
          <Loaded asked={server}>
            {(told) => (
              <Stack gap="sm">
                <Facts>
                  <Fact word={cluster.version}>{told.version}</Fact>
                  <Fact word={cluster.store}>{told.store}</Fact>
                  <Fact word={cluster.clock}>
                    <Instant at={told.now} />
                  </Fact>
                  <Fact word={told.data}>
                    {told.disk
                      ? cluster.disk(bytes(told.disk.free_bytes), bytes(told.disk.total_bytes))
                      : state.none}
                  </Fact>
                  <Fact word={cluster.ready}>{told.not_ready ?? cluster.ready}</Fact>
                </Facts>
                {(told.old_transactions ?? []).map((old) => (
                  <Alert key={old.pid} color="orange">
                    {old.what} ({old.age_seconds} s)
                  </Alert>
                ))}
              </Stack>
            )}
          </Loaded>
        </Section>
        <Loaded asked={members}>
          {({ nodes, duties, this_node }) => (
            <>
              <Section title={cluster.nodes}>
                <Rows label={cluster.nodes} heads={["#", cluster.nodes, cluster.lease]}>
                  {nodes.map((node) => (
                    <Table.Tr key={node.id}>
                      <Table.Td>{node.id}</Table.Td>
                      <Table.Td>
                        <Group gap="xs">
                          {node.address}
                          {node.id === this_node && (
                            <Text size="xs" c="dimmed">
                              {cluster.thisNode}
                            </Text>
                          )}
                        </Group>
                      </Table.Td>
                      <Table.Td>
                        <Instant at={node.expires_at} />
                      </Table.Td>
                    </Table.Tr>
                  ))}
                </Rows>
              </Section>
              <Section title={cluster.duties}>
                <Rows label={cluster.duties} heads={[cluster.duties, cluster.owner, cluster.term]}>
                  {[...duties]
                    .sort(
                      (a, b) =>
                        Number(a.node != null) - Number(b.node != null) ||
                        a.key.localeCompare(b.key, "en", { numeric: true }),
                    )
                    .map((duty) => (
                      <Table.Tr key={duty.key}>
                        <Table.Td>{duty.key}</Table.Td>
                        <Table.Td>
                          {duty.node ?? (
                            <Badge color="red.6" variant="dot" radius="sm" tt="none">
                              {cluster.nobody}
                            </Badge>
                          )}
                        </Table.Td>
                        <Table.Td>{duty.term}</Table.Td>
                      </Table.Tr>
                    ))}
                </Rows>
              </Section>
            </>
          )}
        </Loaded>
      </Stack>
    </Page>
  );
}

/** The one thing that can be done about a clock that stepped ahead and is right. */
function HeldClock({ clock }: { clock: Clock }) {
  const { cluster, pause } = useWords();
  const [asking, setAsking] = useState(false);
  return (
    <Alert color="red" role="alert">
      <Group justify="space-between">
        {cluster.clockHeld(clock.ahead_seconds)}
        <MayButton
          needs="admin"
          namespace={EVERYWHERE}
          size="xs"
          color="red"
          onClick={() => setAsking(true)}
        >
          {cluster.accept}
        </MayButton>
      </Group>
      <Confirm
        opened={asking}
        close={() => setAsking(false)}
        title={cluster.acceptTitle}
        type={{ text: "clock", ask: pause.type("clock") }}
        go={cluster.acceptGo}
        color="red"
        act={act.acceptClock}
      >
        <Effect>{cluster.acceptEffect}</Effect>
        <Facts>
          <Fact word={cluster.clockTime}>
            <Instant at={clock.now} />
          </Fact>
          <Fact word={cluster.clockReading}>
            <Instant at={clock.reading} />
          </Fact>
        </Facts>
      </Confirm>
    </Alert>
  );
}
