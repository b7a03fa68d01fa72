// A table of runs: a short one, or one that goes on for as long as one scrolls.
import { Table } from "@mantine/core";
import type { Run } from "../api/client";
import { useWords } from "../i18n/words";
import { between, length } from "../time/instant";
import { Instant } from "../time/zone";
import { JobLink, Rows, ShardBar, To } from "./parts";
import { RunState } from "./state";

/** A short table of runs of one job. */
export function RunRows({ runs, label, zone }: { runs: Run[]; label: string; zone?: string }) {
  const { words } = useWords();
  const heads = [words.run, words.state, words.planned, words.progress, words.took, words.started];
  return (
    <Rows label={label} heads={heads}>
      {runs.map((run) => (
        <Table.Tr key={run.id}>
          <RunCells run={run} zone={zone} ofOneJob />
        </Table.Tr>
      ))}
    </Rows>
  );
}

/** The cells of a run's row. */
export function RunCells({ run, ofOneJob, zone }: { run: Run; ofOneJob?: boolean; zone?: string }) {
  const { words } = useWords();
  return (
    <>
      <td>
        <To to={`/runs/${run.id}`}>#{run.id}</To>
      </td>
      {!ofOneJob && (
        <td>
          <JobLink job={{ namespace: run.namespace, name: run.job }} />
        </td>
      )}
      <td>
        <RunState run={run} />
      </td>
      <td>
        {run.planned_at ? (
          <Instant at={run.planned_at} zone={zone ?? run.nominal?.zone} />
        ) : (
          <span className="dimmed">{words.byRequest}</span>
        )}
      </td>
      <td>
        <ShardBar run={run} />
      </td>
      <td style={{ whiteSpace: "nowrap" }}>
        {run.started_at && run.ended_at
          ? length(between(run.started_at, run.ended_at), words.units)
          : "–"}
      </td>
      <td>
        <Instant at={run.started_at} zone={zone ?? run.nominal?.zone} />
      </td>
    </>
  );
}
