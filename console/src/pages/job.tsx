// One job: what comes, what ran, what did not and why, its document through time, its backfills.
import { Alert, Code, Group, List, SimpleGrid, Stack, Table, Text } from "@mantine/core";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useNavigate, useParams, useSearchParams } from "react-router";
import { act } from "../api/actions";
import type { Job } from "../api/client";
import { type JobName, query, shownJob } from "../api/queries";
import { useLanguage, useWords } from "../i18n/words";
import { between, clockChange, length } from "../time/instant";
import { Instant } from "../time/zone";
import { Confirm, Effect } from "../ui/confirm";
import { Durations } from "../ui/durations";
import { Listing } from "../ui/listing";
import { Empty, Loaded } from "../ui/loaded";
import { MayButton, MayLink } from "../ui/may";
import { Fact, Facts, jobAddress, Page, Rows, Section, To } from "../ui/parts";
import { RunRows } from "../ui/run_rows";
import { State } from "../ui/state";
import { PauseOrResume, RunNow } from "./job_actions";
import { Backfills, StartBackfillForm } from "./job_backfills";
import { Documents } from "./job_document";
import { Outcomes } from "./job_outcomes";

export default function JobPage() {
  const { namespace = "", name = "" } = useParams();
  const job: JobName = { namespace, name };
  const asked = useQuery(query.job(job));
  return <Loaded asked={asked}>{(found) => <Found job={found} />}</Loaded>;
}

type Open = "run" | "pause" | "remove" | "backfill" | null;

function Found({ job }: { job: Job }) {
  const { job: words, words: common, pause, remove } = useWords();
  const navigate = useNavigate();
  // From a list one comes with what one came for.
  const [params] = useSearchParams();
  const [open, setOpen] = useState<Open>(params.get("do") === "run" ? "run" : null);
  const close = () => setOpen(null);
  const shown = shownJob(job);
  return (
    <Page
      title={
        <Group gap="sm">
          {shown}
          <State state={job.paused ? "paused" : "live"} />
        </Group>
      }
      aside={
        <>
          <MayButton
            needs="operator"
            namespace={job.namespace}
            size="xs"
            onClick={() => setOpen("run")}
          >
            {words.runNow}
          </MayButton>
          <MayButton
            needs="operator"
            namespace={job.namespace}
            size="xs"
            variant="default"
            onClick={() => setOpen("pause")}
          >
            {job.paused ? words.resume : words.pause}
          </MayButton>
          <MayButton
            needs="operator"
            namespace={job.namespace}
            size="xs"
            variant="default"
            onClick={() => setOpen("backfill")}
          >
            {words.backfills}
          </MayButton>
          <MayLink
            needs="editor"
            namespace={job.namespace}
            size="xs"
            variant="default"
            to={`${jobAddress(job)}/edit`}
          >
            {words.edit}
          </MayLink>
          <MayButton
            needs="editor"
            namespace={job.namespace}
            size="xs"
            variant="outline"
            color="red"
            onClick={() => setOpen("remove")}
          >
            {words.remove}
          </MayButton>
        </>
      }
    >
      {job.title && <Text c="dimmed">{job.title}</Text>}
      <Facts>
        <Fact word={common.next}>
          <Instant at={job.next_at ?? job.following_at} zone={job.time_zone} />
        </Fact>
        <Fact word={words.decided}>
          <Instant at={job.decided_until} zone={job.time_zone} />
        </Fact>
        <Fact word={common.zone}>{job.time_zone}</Fact>
        <Fact word={common.active}>
          <To to={`/runs?job=${encodeURIComponent(shown)}&state=running`}>
            {common.number(job.active_runs)}
          </To>
        </Fact>
        <Fact word={common.revision}>{job.revision}</Fact>
        <Fact word={common.created}>
          <Instant at={job.created_at} zone={job.time_zone} />
        </Fact>
      </Facts>
      <SimpleGrid cols={{ base: 1, lg: 2 }} style={{ alignItems: "start" }}>
        <Stack style={{ minWidth: 0 }}>
          <RecentRuns job={job} />
          <LastOutcomes job={job} />
          <Decisions job={job} />
        </Stack>
        <Stack style={{ minWidth: 0 }}>
          <Coming job={job} />
          <Backfills job={job} />
          <Documents job={job} />
        </Stack>
      </SimpleGrid>
      <RunNow job={job} opened={open === "run"} close={close} />
      <PauseOrResume job={job} opened={open === "pause"} close={close} />
      <StartBackfillForm job={job} opened={open === "backfill"} close={close} />
      <Confirm
        opened={open === "remove"}
        close={close}
        title={remove.title(shown)}
        type={{ text: job.name, ask: pause.type(job.name) }}
        go={remove.go}
        color="red"
        act={() => act.remove(job)}
        done={() => navigate("/jobs")}
      >
        <Effect>{remove.effect}</Effect>
      </Confirm>
    </Page>
  );
}

function Coming({ job }: { job: Job }) {
  const { language, words: all } = useLanguage();
  const { job: words, words: common } = all;
  const asked = useQuery(query.next(job, 10));
  return (
    <Section title={words.coming}>
      <Loaded asked={asked}>
        {({ items, paused, time_zone, cron }) =>
          items.length === 0 ? (
            <Empty>{words.comingNone}</Empty>
          ) : (
            <>
              {paused && (
                <Alert color="yellow" mb="xs">
                  {words.comingPaused}
                </Alert>
              )}
              {cron?.map((schedule) => (
                <Text key={schedule.cron} size="sm" mb="xs" data-cron={schedule.cron}>
                  <Code>{schedule.cron}</Code> {schedule[language]}
                </Text>
              ))}
              <List size="sm" spacing={2} listStyleType="none">
                {items.map((at, index) => (
                  <List.Item key={at}>
                    <Clocks before={items[index - 1]} at={at} />
                    <Instant at={at} zone={time_zone} />{" "}
                    <Text span size="xs" c="dimmed">
                      {common.ahead(
                        length(Math.max(0, between(new Date().toISOString(), at)), common.units),
                      )}
                    </Text>
                  </List.Item>
                ))}
              </List>
            </>
          )
        }
      </Loaded>
    </Section>
  );
}

/** In words, where the clocks of the job's zone are changed between two of its times. */
function Clocks({ before, at }: { before: string | undefined; at: string }) {
  const { job } = useWords();
  const change = clockChange(before, at);
  if (change === null) return null;
  return (
    <Text size="xs" c="dimmed">
      {change.isForward
        ? job.clocksForward(change.from, change.to)
        : job.clocksBack(change.from, change.to)}
    </Text>
  );
}

function RecentRuns({ job }: { job: Job }) {
  const { job: words } = useWords();
  const shown = shownJob(job);
  const asked = useInfiniteQuery(query.runs({ job: shown }));
  const items = asked.data?.pages[0]?.items ?? [];
  return (
    <Section
      title={words.runs}
      aside={<To to={`/runs?job=${encodeURIComponent(shown)}`}>{words.allRuns}</To>}
    >
      <Loaded asked={asked}>
        {() =>
          items.length === 0 ? (
            <Empty>{words.noRuns}</Empty>
          ) : (
            <Stack>
              <Durations runs={items} zone={job.time_zone} />
              <RunRows runs={items.slice(0, 10)} label={words.runs} zone={job.time_zone} />
            </Stack>
          )
        }
      </Loaded>
    </Section>
  );
}

/** A week: most questions about what did not run are about the last days. */
const WEEK_MS = 7 * 86_400_000;

/** What was not run in the last week. */
function useDecisions(job: Job) {
  // By the whole hour, so that the question stays the same for the cache.
  const [from] = useState(() => {
    const hour = Math.floor((Date.now() - WEEK_MS) / 3_600_000) * 3_600_000;
    return new Date(hour).toISOString();
  });
  return useInfiniteQuery(query.decisions(job, from));
}

/** What became of the planned times of the runs that are listed and the records of the week. */
function LastOutcomes({ job }: { job: Job }) {
  const runs = useInfiniteQuery(query.runs({ job: shownJob(job) }));
  const decisions = useDecisions(job);
  return (
    <Outcomes
      runs={runs.data?.pages.flatMap((page) => page.items) ?? []}
      decisions={decisions.data?.pages.flatMap((page) => page.items) ?? []}
      zone={job.time_zone}
    />
  );
}

function Decisions({ job }: { job: Job }) {
  const { job: words, words: common, reasons } = useWords();
  const asked = useDecisions(job);
  return (
    <Section title={words.decisions}>
      <Listing asked={asked} none={words.noDecisions} more={words.earlier}>
        {(items) => (
          <Rows label={words.decisions} heads={[words.from, words.to, common.count, common.reason]}>
            {items.map((decision) => (
              <Table.Tr key={`${decision.from} ${decision.to} ${decision.reason}`}>
                <Table.Td>
                  <Instant at={decision.from} zone={job.time_zone} />
                </Table.Td>
                <Table.Td>
                  <Instant at={decision.to} zone={job.time_zone} />
                </Table.Td>
                <Table.Td>{common.number(decision.count)}</Table.Td>
                <Table.Td>
                  {(reasons as Record<string, string>)[decision.reason] ?? decision.reason}
                  {decision.reference && (
                    <Text size="xs" c="dimmed">
                      {decision.reference}
                    </Text>
                  )}
                  {(decision.filled ?? 0) > 0 && (
                    <Text size="xs" c="dimmed">
                      {words.filled(decision.filled ?? 0)}
                      {decision.filled_by && (
                        <To to={`/runs/${decision.filled_by}`}> #{decision.filled_by}</To>
                      )}
                    </Text>
                  )}
                </Table.Td>
              </Table.Tr>
            ))}
          </Rows>
        )}
      </Listing>
    </Section>
  );
}
