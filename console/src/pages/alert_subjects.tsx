// One alert with what it is about: each job, pool or clock as a link to where it is seen.
import { Button, Group, Paper, Stack, Text } from "@mantine/core";
import { type ReactNode, useState } from "react";
import type { Alert } from "../api/client";
import { useWords } from "../i18n/words";
import { Instant } from "../time/zone";
import { jobAddress, To } from "../ui/parts";
import { useRuleWords } from "./alert_rules";
import { jobOf, runOf } from "./alert_text";

/** Alerts, or jobs of one, that are shown before somebody asks for all. */
export const PAGE = 10;

export function ShowAll({ count, all, show }: { count: number; all: boolean; show: () => void }) {
  const { alerts } = useWords();
  if (all || count <= PAGE) return null;
  return (
    <Button variant="default" size="compact-xs" onClick={show} style={{ alignSelf: "flex-start" }}>
      {alerts.showAll(count)}
    </Button>
  );
}

export function AlertBox({ alert }: { alert: Alert }) {
  const { alerts } = useWords();
  const words = useRuleWords()(alert.rule);
  const [all, setAll] = useState(false);
  // What is still so comes first.
  const subjects = [...alert.subjects].sort((a, b) => Number(b.active) - Number(a.active));
  return (
    <Paper
      withBorder
      p="sm"
      radius="md"
      role="listitem"
      data-alert={alert.alert}
      className="alert-box"
      data-phase={alert.phase}
    >
      <Group justify="space-between" align="baseline" gap="xs" mb={4}>
        <Text fw={600} size="sm">
          {words.title}{" "}
          <Text span size="xs" c="dimmed" ff="monospace">
            {alert.rule}
          </Text>
        </Text>
        <Text size="xs" c="dimmed" component="div">
          {alerts.since} <Instant at={alert.since} /> · {alerts.told}{" "}
          {alert.told_at ? <Instant at={alert.told_at} /> : alerts.notTold}
        </Text>
      </Group>
      <Stack gap={6}>
        {(all ? subjects : subjects.slice(0, PAGE)).map((subject) => (
          <Subject key={subject.subject} rule={alert.rule} of={subject} />
        ))}
        <ShowAll count={subjects.length} all={all} show={() => setAll(true)} />
        {alert.more && (
          <Text size="xs" c="dimmed">
            {alerts.more}
          </Text>
        )}
      </Stack>
    </Paper>
  );
}

function Subject({ rule, of }: { rule: string; of: Alert["subjects"][number] }) {
  const { alerts } = useWords();
  return (
    <div className="alert-subject" data-gone={of.active ? undefined : true}>
      <Group gap="sm">
        <Links rule={rule} subject={of.subject} cause={of.cause} />
        <Text size="xs" c="dimmed" component="div">
          {of.active ? (
            <>
              {alerts.since} <Instant at={of.since} />
            </>
          ) : (
            alerts.well
          )}
        </Text>
      </Group>
      {of.cause !== "" && (
        <Text size="sm" c="dimmed" style={{ overflowWrap: "anywhere" }}>
          {of.cause}
        </Text>
      )}
    </div>
  );
}

/** Rules whose subjects are pools. */
const OF_POOLS = ["no_worker", "backlog", "no_lease"];
/** Rules whose subjects are duties, or transactions in the database. */
const OF_SERVERS = ["no_owner", "owner_flapping", "old_transaction"];

/** The subject alone, as a link to its page. */
export function SubjectLink({ rule, subject }: { rule: string; subject: string }) {
  const { alerts } = useWords();
  if (rule === "late") return <To to="/jobs?state=late">{alerts.lateJobs}</To>;
  if (rule === "clock_step") return <To to="/cluster">{alerts.clock}</To>;
  if (OF_POOLS.includes(rule)) return <To to={poolAddress(subject)}>{subject}</To>;
  if (rule === "capacity_exhausted") {
    return <To to={`/capacities/${encodeURIComponent(subject)}`}>{subject}</To>;
  }
  if (OF_SERVERS.includes(rule)) return <To to="/cluster">{subject}</To>;
  const job = jobOf(subject);
  return job === null ? <span>{subject}</span> : <To to={jobAddress(job)}>{subject}</To>;
}

const poolAddress = (pool: string) => `/workers?pool=${encodeURIComponent(pool)}`;

/** Where the subject is seen, and what of it is wrong. */
function Links({ rule, subject, cause }: { rule: string; subject: string; cause: string }) {
  const { alerts } = useWords();
  const name = <SubjectLink rule={rule} subject={subject} />;
  if (OF_POOLS.includes(rule)) {
    return (
      <>
        <Strong>{name}</Strong>
        <To to={poolAddress(subject)}>{alerts.workers}</To>
      </>
    );
  }
  const isOther = rule === "capacity_exhausted" || OF_SERVERS.includes(rule);
  if (isOther || jobOf(subject) === null) return name;
  const run = runOf(subject, cause);
  const named = `job=${encodeURIComponent(subject)}`;
  return (
    <>
      <Strong>{name}</Strong>
      {run !== null && <To to={`/runs/${encodeURIComponent(run)}`}>{alerts.failedRun}</To>}
      {rule === "failures" && <To to={`/runs?${named}&state=failed`}>{alerts.runs}</To>}
      {rule === "partial" && <To to={`/runs?${named}&state=partial`}>{alerts.runs}</To>}
      {rule === "dead_letters" && <To to={`/dead-letters?${named}`}>{alerts.runs}</To>}
      {rule === "not_started" && (
        <To to={`/runs?${named}&state=cancelled`}>{alerts.cancelledRuns}</To>
      )}
      {(rule === "missed" || rule === "no_success") && (
        <To to={`/audit?view=planned&${named}`}>{alerts.planned}</To>
      )}
    </>
  );
}

function Strong({ children }: { children: ReactNode }) {
  return (
    <Text span fw={600} size="sm" style={{ overflowWrap: "anywhere", minWidth: 0 }}>
      {children}
    </Text>
  );
}
