// A table of runs.
import { Table, Text } from "@mantine/core";
import type { Run } from "../api/client";
import { useWords } from "../i18n/words";
import { between, length } from "../time/instant";
import { Instant } from "../time/zone";
import { JobLink, Rows, ShardBar, To } from "./parts";
import { RunState } from "./state";

export function RunRows({
  runs,
  label,
  ofOneJob,
  zone,
}: {
  runs: Run[];
  label: string;
  ofOneJob?: boolean;
  zone?: string;
}) {
  const { words } = useWords();
  const heads = [
    words.run,
    ...(ofOneJob ? [] : [words.job]),
    words.planned,
    words.state,
    words.progress,
    words.started,
    words.took,
  ];
  return (
    <Rows label={label} heads={heads}>
      {runs.map((run) => (
        <Table.Tr key={run.id}>
          <Table.Td>
            <To to={`/runs/${run.id}`}>#{run.id}</To>
          </Table.Td>
          {!ofOneJob && (
            <Table.Td>
              <JobLink job={{ namespace: run.namespace, name: run.job }} />
            </Table.Td>
          )}
          <Table.Td>
            {run.planned_at ? (
              <Instant at={run.planned_at} zone={zone ?? run.nominal?.zone} />
            ) : (
              <Text size="sm" c="dimmed" span>
                {words.byRequest}
              </Text>
            )}
          </Table.Td>
          <Table.Td>
            <RunState run={run} />
          </Table.Td>
          <Table.Td>
            <ShardBar run={run} />
          </Table.Td>
          <Table.Td>
            <Instant at={run.started_at} zone={zone ?? run.nominal?.zone} />
          </Table.Td>
          <Table.Td style={{ whiteSpace: "nowrap" }}>
            {run.started_at && run.ended_at
              ? length(between(run.started_at, run.ended_at), words.units)
              : "–"}
          </Table.Td>
        </Table.Tr>
      ))}
    </Rows>
  );
}
