// What is late, stuck, failing or missing, in numbers; each is a link to what it counts.
import { Alert, Box, Button, Group, SimpleGrid, Stack, Table, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { Link } from "react-router";
import type { Overview as Told } from "../api/client";
import { query } from "../api/queries";
import { useWords } from "../i18n/words";
import { useInstant } from "../time/zone";
import { Loaded } from "../ui/loaded";
import { JobLink, Page, Rows, Section } from "../ui/parts";

/** Reasons for which a planned time counts as missed; the others were meant. */
const MISSED = new Set(["deadline", "catch_up"]);

export function Overview() {
  const { overview } = useWords();
  const asked = useQuery(query.overview());
  return (
    <Page title={overview.title}>
      <Loaded asked={asked}>{(told) => <Numbers told={told} />}</Loaded>
    </Page>
  );
}

/** What still has no run, by reason. */
export function lacking(skipped: Told["skipped"], missed: boolean): number {
  return skipped
    .filter(
      (row) =>
        MISSED.has(row.reason) === missed && row.reason !== "removed" && row.reason !== "gap",
    )
    .reduce((sum, row) => sum + row.count - row.filled, 0);
}

function Numbers({ told }: { told: Told }) {
  const {
    overview: words,
    jobs: { new: newJob },
  } = useWords();
  const members = useQuery(query.members());
  const workers = useQuery(query.workers());
  const alerts = useQuery(query.alerts());
  const open = alerts.data?.items.filter((alert) => alert.phase === "open").length;
  const { runs, jobs, skipped } = told;
  const missed = lacking(skipped, true);
  const others = lacking(skipped, false);
  const count = (number: number) => (told.ended_all ? undefined : words.atLeast(number));
  const items = workers.data?.items ?? [];
  const held = items.reduce((sum, worker) => sum + worker.held, 0);
  const slots = items.reduce((sum, worker) => sum + worker.slots, 0);
  const idle = (members.data?.duties ?? []).filter((duty) => duty.node == null).length;
  return (
    <Stack>
      <Section title={words.now}>
        <SimpleGrid cols={{ base: 2, sm: 3, lg: 6 }} spacing="sm">
          <Card word={words.alerts} number={open} to="/alerts" alarm={(open ?? 0) > 0} />
          <Card word={words.running} number={runs.running} to="/runs?state=running" />
          <Card word={words.waiting} number={runs.scheduled} to="/runs?state=scheduled" />
          <Card
            word={words.late}
            hint={words.lateHint}
            number={jobs.late}
            to="/jobs?state=late"
            alarm={jobs.late > 0}
          />
          <Card word={words.due} number={jobs.due} to="/jobs?state=due" />
          <Card word={words.jobs} number={jobs.live} to="/jobs?state=live" />
          <Card word={words.pausedJobs} number={jobs.paused} to="/jobs?state=paused" />
          <Card
            word={words.workers}
            number={workers.data && items.length}
            to="/workers"
            alarm={workers.data !== undefined && items.length === 0}
          />
          <Card
            word={words.slots}
            number={workers.data && held}
            text={workers.data && `${held} / ${slots}`}
            to="/workers"
          />
          <Card word={words.nodes} number={members.data?.nodes.length} to="/cluster" />
          <Card word={words.idle} number={members.data && idle} to="/cluster" alarm={idle > 0} />
        </SimpleGrid>
      </Section>
      <Section title={words.day}>
        <SimpleGrid cols={{ base: 2, sm: 3, lg: 6 }} spacing="sm">
          <Card
            word={words.failed}
            number={runs.failed}
            text={count(runs.failed)}
            to="/runs?state=failed"
            alarm={runs.failed > 0}
          />
          <Card
            word={words.partial}
            number={runs.partial}
            text={count(runs.partial)}
            to="/runs?state=partial"
            alarm={runs.partial > 0}
          />
          <Card
            word={words.missed}
            hint={words.missedHint}
            number={missed}
            to="/#skipped"
            alarm={missed > 0}
          />
          <Card word={words.skipped} hint={words.skippedHint} number={others} to="/#skipped" />
          <Card
            word={words.succeeded}
            number={runs.succeeded}
            text={count(runs.succeeded)}
            to="/runs?state=succeeded"
          />
          <Card
            word={words.cancelled}
            number={runs.cancelled}
            text={count(runs.cancelled)}
            to="/runs?state=cancelled"
          />
        </SimpleGrid>
      </Section>
      <Section title={words.soon}>
        <Load told={told} />
      </Section>
      <Skipped told={told} />
      {jobs.live + jobs.paused === 0 && (
        <Alert color="cyan">
          <Group justify="space-between">
            {words.firstJob}
            <Button component={Link} to="/jobs/new" size="xs">
              {newJob}
            </Button>
          </Group>
        </Alert>
      )}
    </Stack>
  );
}

function Card({
  word,
  hint,
  number,
  text,
  to,
  alarm,
}: {
  word: string;
  hint?: string;
  number: number | undefined;
  text?: ReactNode;
  to: string;
  alarm?: boolean;
}) {
  const { words } = useWords();
  return (
    <Link
      to={to}
      className="number-card"
      data-alarm={alarm || undefined}
      data-number={number}
      title={hint}
    >
      <Text size="xs" c="dimmed">
        {word}
      </Text>
      <Text
        size="xl"
        fw={600}
        c={alarm ? "red" : undefined}
        style={{ fontVariantNumeric: "tabular-nums" }}
      >
        {text ?? (number === undefined ? "–" : words.number(number))}
      </Text>
    </Link>
  );
}

const BARS = 64;

/** How many jobs come due in each part of the next hour. */
function Load({ told }: { told: Told }) {
  const { overview, words } = useWords();
  const instant = useInstant();
  const most = Math.max(1, ...told.load.map((part) => part.jobs));
  return (
    <Box>
      <Text size="xs" c="dimmed" mb={4}>
        {overview.load}
      </Text>
      <Group gap={4} align="flex-end" h={BARS} wrap="nowrap" role="list" aria-label={overview.load}>
        {told.load.map((part) => {
          const text = `${instant(part.from)} · ${words.jobs(part.jobs)}`;
          return (
            <Box
              key={part.from}
              role="listitem"
              title={text}
              aria-label={text}
              style={{
                flex: "1 1 0",
                height: Math.max(2, Math.round((BARS * part.jobs) / most)),
                background:
                  part.jobs > 0
                    ? "var(--mantine-color-cyan-6)"
                    : "var(--mantine-color-default-border)",
                borderRadius: 2,
              }}
            />
          );
        })}
      </Group>
      <Group justify="space-between" mt={4} aria-hidden>
        {[0, told.load.length / 2, told.load.length - 1].map((at) => {
          const part = told.load[Math.floor(at)];
          return (
            part && (
              <Text key={at} size="xs" c="dimmed" className="instant">
                {instant(part.from).slice(11, 16)} {instant(part.from).slice(-6)}
              </Text>
            )
          );
        })}
      </Group>
    </Box>
  );
}

function Skipped({ told }: { told: Told }) {
  const { skipped, words, reasons, job } = useWords();
  if (told.skipped.length === 0) return <span id="skipped" />;
  return (
    <div id="skipped">
      <Section title={skipped.title}>
        <Rows label={skipped.title} heads={[words.job, words.reason, words.count, ""]}>
          {told.skipped.map((row) => (
            <Table.Tr key={`${row.namespace}/${row.job} ${row.reason}`}>
              <Table.Td>
                <JobLink job={{ namespace: row.namespace, name: row.job }} />
              </Table.Td>
              <Table.Td>{(reasons as Record<string, string>)[row.reason] ?? row.reason}</Table.Td>
              <Table.Td>{words.number(row.count)}</Table.Td>
              <Table.Td>
                {row.filled > 0 && (
                  <Text size="xs" c="dimmed">
                    {job.filled(row.filled)}
                  </Text>
                )}
              </Table.Td>
            </Table.Tr>
          ))}
        </Rows>
      </Section>
    </div>
  );
}
