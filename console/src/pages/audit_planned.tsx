// A job's planned times of the last days, worked out by the server now, against what is recorded of each.
//
// Invariants: nothing is reckoned here; what has neither a run nor a record is shown as just that. The
// times are those of the schedule in force, so older ones may never have been planned: it is said.
//
// Not here: the second opinion over every revision (`sichen audit`).
import { Alert, Code, Group, Select, Stack, Text, TextInput } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useEffect, useMemo, useState } from "react";
import { useSearchParams } from "react-router";
import type { Job } from "../api/client";
import { type JobName, query, shownJob } from "../api/queries";
import { useWords } from "../i18n/words";
import { Instant } from "../time/zone";
import { itemsOf } from "../ui/listing";
import { Empty, Failure, Loaded } from "../ui/loaded";
import { LongRows } from "../ui/long_rows";
import { Fact, Facts, JobLink, Section, To } from "../ui/parts";
import { Dot, State } from "../ui/state";
import { jobOf } from "./alert_text";
import { type Recorded, recordedOf } from "./planned_times";

const DAYS = ["1", "7", "30", "90"];
const DAY_MS = 86_400_000;

export function Planned() {
  const { audit } = useWords();
  const [params, setParams] = useSearchParams();
  const named = params.get("job") ?? "";
  const days = DAYS.find((one) => one === params.get("days")) ?? "7";
  const [text, setText] = useState(named);
  const [settled] = useDebouncedValue(text.trim(), 500);
  useEffect(() => {
    if (settled !== named) setParams({ view: "planned", job: settled, days }, { replace: true });
  }, [settled]);
  const job = jobOf(named);
  return (
    <>
      <Group align="flex-end">
        <TextInput
          size="xs"
          w={260}
          label={audit.jobName}
          placeholder="payments/settlement"
          value={text}
          onChange={(event) => setText(event.currentTarget.value)}
        />
        <Select
          size="xs"
          w={150}
          label={audit.range}
          allowDeselect={false}
          value={days}
          onChange={(value) => setParams({ view: "planned", job: named, days: value ?? "7" })}
          data={DAYS.map((value) => ({ value, label: audit.lastDays(Number(value)) }))}
        />
      </Group>
      {job === null ? (
        <Empty>{audit.nameJob}</Empty>
      ) : (
        <OfJob key={`${named} ${days}`} job={job} days={Number(days)} />
      )}
    </>
  );
}

function OfJob({ job, days }: { job: JobName; days: number }) {
  const asked = useQuery(query.job(job));
  return <Loaded asked={asked}>{(found) => <Times job={found} days={days} />}</Loaded>;
}

function Times({ job, days }: { job: Job; days: number }) {
  const { audit, words } = useWords();
  // Fixed while it is looked at, so that its pages fit each other.
  const [range] = useState(() => {
    const to = Math.floor(Date.now() / 60_000) * 60_000;
    return { from: instantAt(to - days * DAY_MS), to: instantAt(to) };
  });
  const wanted = query.planned(job, range);
  const asked = useInfiniteQuery(wanted);
  const decisions = useQuery(query.decisionsIn(job, range.from));
  const rows = useMemo(
    () => recordedOf(job, itemsOf(asked), decisions.data?.items ?? []),
    [job, asked.data, decisions.data],
  );
  const count = (what: Recorded["what"]) => rows.filter((row) => row.what === what).length;
  const nothing = count("nothing");
  const told = asked.data?.pages[0];
  const cells = useMemo(() => (row: Recorded) => <Cells row={row} zone={job.time_zone} />, [job]);
  if (asked.error && asked.data === undefined) {
    return <Failure error={asked.error} again={() => void asked.refetch()} />;
  }
  return (
    <Loaded asked={asked}>
      {() => (
        <Stack>
          <Section title={audit.sums}>
            <Facts>
              <Fact word={words.job}>
                <JobLink job={job} />
              </Fact>
              <Fact word={audit.plannedCount}>{words.number(told?.instants ?? 0)}</Fact>
              <Fact word={audit.found.run}>{words.number(count("run"))}</Fact>
              <Fact word={audit.found.record}>{words.number(count("record"))}</Fact>
              <Fact word={audit.found.nothing}>
                <Text span size="sm" c={nothing > 0 ? "red" : undefined} data-nothing={nothing}>
                  {words.number(nothing)}
                </Text>
              </Fact>
              <Fact word={audit.found.undecided}>{words.number(count("undecided"))}</Fact>
            </Facts>
            {asked.hasNextPage && (
              <Text size="xs" c="dimmed" mt="xs">
                {audit.soFar(rows.length)}
              </Text>
            )}
          </Section>
          {job.revision > 1 && nothing > 0 && (
            <Alert color="orange">{audit.revised(job.revision)}</Alert>
          )}
          <Section title={audit.planned}>
            {rows.length === 0 ? (
              <Empty>{audit.nonePlanned}</Empty>
            ) : (
              <LongRows
                label={audit.planned}
                columns={[
                  { head: words.planned, part: 240 },
                  { head: audit.recorded, part: 220 },
                  { head: words.run, part: 160 },
                ]}
                rows={rows}
                keyOf={({ at }) => at}
                row={cells}
                asked={asked}
                queryKey={wanted.queryKey}
                height={37}
              />
            )}
          </Section>
          <Text size="xs" c="dimmed">
            {audit.expected} <Code>sichen audit {shownJob(job)}</Code>
          </Text>
        </Stack>
      )}
    </Loaded>
  );
}

const instantAt = (ms: number) => new Date(ms).toISOString().replace(/\.\d+Z$/, "Z");

const COLORS: Record<Recorded["what"], string> = {
  run: "teal",
  record: "orange",
  covered: "teal",
  removed: "gray",
  undecided: "blue",
  before: "gray",
  nothing: "red",
};

function Cells({ row, zone }: { row: Recorded; zone: string }) {
  const { audit, reasons } = useWords();
  const why =
    row.reason === undefined ? undefined : (reasons as Record<string, string>)[row.reason];
  return (
    <>
      <td>
        <Instant at={row.at} zone={zone} />
      </td>
      <td data-recorded={row.what}>
        <Dot color={COLORS[row.what]}>{audit.found[row.what]}</Dot>{" "}
        <span className="dimmed small">{why ?? row.reason}</span>
      </td>
      <td>
        {row.run !== undefined && (
          <>
            <To to={`/runs/${row.run}`}>#{row.run}</To>{" "}
            {row.state !== undefined && <State state={row.state} />}
          </>
        )}
      </td>
    </>
  );
}
