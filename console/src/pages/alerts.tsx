// What people are told of as failing, missing, late or stuck; what waits to be told; and by which rules.
//
// Not here: the file that says who is told of what, which servers read at their start.
import { Code, Group, Alert as Notice, Select, Stack, Table, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useSearchParams } from "react-router";
import type { Alert, Alerts as Told } from "../api/client";
import { query } from "../api/queries";
import { useWords } from "../i18n/words";
import { Instant } from "../time/zone";
import { Empty, Loaded } from "../ui/loaded";
import { Page, Rows, Section } from "../ui/parts";
import { Explained, RULES, useRuleWords } from "./alert_rules";
import { AlertBox, PAGE, ShowAll, SubjectLink } from "./alert_subjects";

export default function Alerts() {
  const { alerts } = useWords();
  const asked = useQuery(query.alerts());
  const members = useQuery(query.members());
  const owner = members.data?.duties.find((duty) => duty.key === "alerts")?.node;
  return (
    <Page title={alerts.title} aside={<Rule />}>
      {members.data && owner == null && <Unwatched />}
      <Loaded asked={asked}>
        {(told) => <Phases told={told} node={owner == null ? null : String(owner)} />}
      </Loaded>
      <Explained />
    </Page>
  );
}

/** Which rule alone is shown, kept in the address. */
function Rule() {
  const { alerts } = useWords();
  const titleOf = useRuleWords();
  const [params, setParams] = useSearchParams();
  return (
    <Select
      size="xs"
      w={230}
      aria-label={alerts.rule}
      placeholder={alerts.anyRule}
      clearable
      value={params.get("rule")}
      onChange={(rule) => setParams(rule === null ? {} : { rule }, { replace: true })}
      data={RULES.map((value) => ({ value, label: titleOf(value).title }))}
    />
  );
}

function Unwatched() {
  const { alerts } = useWords();
  return (
    <Notice color="cyan">
      <Stack gap="xs" align="flex-start">
        {alerts.unwatched}
        <Code>sichen server --alerts FILE</Code>
      </Stack>
    </Notice>
  );
}

function Phases({ told, node }: { told: Told; node: string | null }) {
  const { alerts } = useWords();
  const [params] = useSearchParams();
  const rule = params.get("rule");
  const of = (phase: string) =>
    told.items
      .filter((alert) => alert.phase === phase && (rule === null || alert.rule === rule))
      .sort((a, b) => b.since.localeCompare(a.since));
  const [open, pending, over] = [of("open"), of("pending"), of("over")];
  return (
    <Stack>
      <Section title={alerts.open}>
        {open.length === 0 ? (
          <Empty>{rule === null ? alerts.none : alerts.noneOfRule}</Empty>
        ) : (
          <Boxes alerts={open} />
        )}
        {node !== null && (
          <Text size="xs" c="dimmed" mt="xs">
            {alerts.watched(node)}
          </Text>
        )}
      </Section>
      {pending.length > 0 && (
        <Section title={alerts.pending}>
          <Text size="xs" c="dimmed" mb="xs">
            {alerts.pendingHint}
          </Text>
          <Boxes alerts={pending} />
        </Section>
      )}
      <Waiting told={told} />
      <Over over={over} />
    </Stack>
  );
}

function Boxes({ alerts }: { alerts: Alert[] }) {
  const [all, setAll] = useState(false);
  return (
    <Stack gap="sm" role="list">
      {(all ? alerts : alerts.slice(0, PAGE)).map((alert) => (
        <AlertBox key={alert.alert} alert={alert} />
      ))}
      <ShowAll count={alerts.length} all={all} show={() => setAll(true)} />
    </Stack>
  );
}

function Waiting({ told }: { told: Told }) {
  const { alerts, words } = useWords();
  return (
    <Section title={alerts.waiting}>
      {told.waiting.length === 0 ? (
        <Text size="sm" c="dimmed">
          {alerts.waitingNone}
        </Text>
      ) : (
        <Stack gap="xs">
          <Rows label={alerts.waiting} heads={[alerts.receiver, alerts.count]}>
            {told.waiting.map(({ receiver, count }) => (
              <Table.Tr key={receiver}>
                <Table.Td>{receiver}</Table.Td>
                <Table.Td>{words.number(count)}</Table.Td>
              </Table.Tr>
            ))}
          </Rows>
          <Text size="xs" c="dimmed">
            {alerts.waitingHint}
          </Text>
        </Stack>
      )}
    </Section>
  );
}

/** Subjects of an alert that a row names. */
const NAMED = 5;

function Over({ over }: { over: Alert[] }) {
  const { alerts } = useWords();
  const titleOf = useRuleWords();
  const [all, setAll] = useState(false);
  return (
    <Section title={alerts.over}>
      {over.length === 0 ? (
        <Text size="sm" c="dimmed">
          {alerts.overNone}
        </Text>
      ) : (
        <>
          <Rows
            label={alerts.over}
            heads={[alerts.what, alerts.of, alerts.overSince]}
            minWidth={560}
          >
            {(all ? over : over.slice(0, PAGE)).map((alert) => (
              <Table.Tr key={alert.alert}>
                <Table.Td style={{ whiteSpace: "nowrap" }}>{titleOf(alert.rule).title}</Table.Td>
                <Table.Td>
                  <Group gap="xs">
                    {alert.subjects.slice(0, NAMED).map(({ subject }) => (
                      <SubjectLink key={subject} rule={alert.rule} subject={subject} />
                    ))}
                    {(alert.subjects.length > NAMED || alert.more) && "…"}
                  </Group>
                </Table.Td>
                <Table.Td>
                  <Instant at={alert.since} />
                </Table.Td>
              </Table.Tr>
            ))}
          </Rows>
          <ShowAll count={over.length} all={all} show={() => setAll(true)} />
        </>
      )}
    </Section>
  );
}
