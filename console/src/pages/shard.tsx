// One shard: what it has to do, its attempts, what they wrote, what happened.
import { Alert, Badge, Button, Code, Drawer, Group, Paper, Stack, Tabs, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { act } from "../api/actions";
import type { Attempt, Run, Shard } from "../api/client";
import { query } from "../api/queries";
import { useWords } from "../i18n/words";
import { between, length } from "../time/instant";
import { Instant } from "../time/zone";
import { Confirm, Effect } from "../ui/confirm";
import { Empty, Loaded } from "../ui/loaded";
import { MayButton } from "../ui/may";
import { Fact, Facts } from "../ui/parts";
import { State } from "../ui/state";
import { Output } from "./output";
import { Timeline } from "./timeline";

export function ShardDrawer({
  run,
  no,
  zone,
  close,
}: {
  run: Run;
  no: number | null;
  zone: string | undefined;
  close: () => void;
}) {
  const { shard, state } = useWords();
  return (
    <Drawer
      opened={no !== null}
      onClose={close}
      position="right"
      size="xl"
      title={no === null ? "" : shard.title(run.id, no)}
      closeButtonProps={{ "aria-label": state.close }}
    >
      {no !== null && <One key={no} run={run} no={no} zone={zone} />}
    </Drawer>
  );
}

function One({ run, no, zone }: { run: Run; no: number; zone: string | undefined }) {
  const id = String(run.id);
  const asked = useQuery(query.shard(id, no));
  return (
    <Loaded asked={asked}>
      {(shard) => (
        <Stack>
          {shard && <About shard={shard} run={run} zone={zone} />}
          <Attempts id={id} no={no} zone={zone} />
          <History id={id} no={no} zone={zone} />
        </Stack>
      )}
    </Loaded>
  );
}

/** A shard's part in words. */
function partWords(part: Shard["part"], words: { whole: string; index: string }): string {
  if (part === "whole") return words.whole;
  if (part === "index") return words.index;
  if ("range" in part) return `[${part.range.from}, ${part.range.to})`;
  if ("item" in part) return part.item;
  return `${part.plan.data_source}: ${part.plan.sql}`;
}

function About({ shard, run, zone }: { shard: Shard; run: Run; zone: string | undefined }) {
  const { shard: words, run: ofRun, words: common } = useWords();
  const [retrying, setRetrying] = useState(false);
  const mayRetry =
    (run.state === "failed" || run.state === "partial") &&
    (shard.state === "failed" || shard.state === "cancelled");
  return (
    <>
      <Group justify="space-between">
        <State state={shard.state} />
        {mayRetry && (
          <MayButton
            needs="operator"
            namespace={run.namespace}
            size="xs"
            onClick={() => setRetrying(true)}
          >
            {words.retry}
          </MayButton>
        )}
      </Group>
      <Facts>
        <Fact word={words.part}>{partWords(shard.part, words)}</Fact>
        <Fact word={words.token}>{shard.token}</Fact>
        <Fact word={words.takeovers}>{shard.takeovers}</Fact>
        <Fact word={common.progress}>
          {ofRun.items(shard.progress.done)}
          {shard.progress.expected != null && ` / ${common.number(shard.progress.expected)}`}
          {shard.progress.waiting_on && (
            <Text size="xs" c="dimmed">
              {words.waits(shard.progress.waiting_on)}
            </Text>
          )}
        </Fact>
        <Fact word={words.checkpoint}>
          {shard.checkpoint ? `#${shard.checkpoint.seq} ${shard.checkpoint.position}` : "–"}
        </Fact>
        <Fact word={common.started}>
          <Instant at={shard.started_at} zone={zone} />
        </Fact>
        {shard.timeout_at && (
          <Fact word={words.timeout}>
            <Instant at={shard.timeout_at} zone={zone} />
          </Fact>
        )}
        {(shard.state === "retry" || shard.state === "scheduled") && (
          <Fact word={words.ready}>
            <Instant at={shard.ready_at} zone={zone} />
          </Fact>
        )}
      </Facts>
      {shard.failure && (
        <Alert color="red" title={`${words.failure}: ${shard.failure.code}`}>
          <Text size="sm" style={{ whiteSpace: "pre-wrap", overflowWrap: "anywhere" }}>
            {shard.failure.message}
          </Text>
        </Alert>
      )}
      <Confirm
        opened={retrying}
        close={() => setRetrying(false)}
        title={words.retry}
        go={ofRun.retryGo}
        act={() => act.retryRun(String(run.id), [shard.no])}
      >
        <Effect>{ofRun.retryEffect(1, 0)}</Effect>
      </Confirm>
    </>
  );
}

function Attempts({ id, no, zone }: { id: string; no: number; zone: string | undefined }) {
  const { shard: words } = useWords();
  const asked = useQuery(query.attempts(id, no));
  return (
    <Loaded asked={asked}>
      {({ items }) =>
        items.length === 0 ? (
          <Empty>{words.noAttempts}</Empty>
        ) : (
          <Stack gap="xs">
            {[...items].reverse().map((attempt, index) => (
              <AttemptCard
                key={attempt.number}
                id={id}
                no={no}
                attempt={attempt}
                zone={zone}
                newest={index === 0}
              />
            ))}
          </Stack>
        )
      }
    </Loaded>
  );
}

function AttemptCard({
  id,
  no,
  attempt,
  zone,
  newest,
}: {
  id: string;
  no: number;
  attempt: Attempt;
  zone: string | undefined;
  newest: boolean;
}) {
  const { shard: words, words: common } = useWords();
  const [shown, setShown] = useState(newest);
  const label = words.attempt(attempt.number);
  return (
    <Paper withBorder p="sm" component="section" aria-label={label}>
      <Group justify="space-between" gap="xs">
        <Group gap="xs">
          <Text fw={600} size="sm">
            {label}
          </Text>
          <State state={attempt.end ?? "running"} />
          <Text size="sm">
            {common.worker} {attempt.worker}
          </Text>
        </Group>
        <Badge variant="default" radius="sm" tt="none">
          {words.token} {attempt.token}
        </Badge>
      </Group>
      <Text size="xs" c="dimmed" component="div" mt={4}>
        <Instant at={attempt.started_at} zone={zone} />
        {attempt.started_at && attempt.ended_at && (
          <> · {length(between(attempt.started_at, attempt.ended_at), common.units)}</>
        )}
        {" · "}
        {attempt.from_checkpoint > 0
          ? words.fromCheckpoint(attempt.from_checkpoint)
          : words.fromStart}
        {attempt.refused_reports > 0 && <> · {words.refused(attempt.refused_reports)}</>}
      </Text>
      {attempt.failure && (
        <Text size="sm" mt={4} style={{ whiteSpace: "pre-wrap", overflowWrap: "anywhere" }}>
          <Code>{attempt.failure.code}</Code> {attempt.failure.message}
        </Text>
      )}
      {(attempt.result ?? attempt.result_bytes) != null && (
        <Text size="sm" mt={4} style={{ whiteSpace: "pre-wrap", overflowWrap: "anywhere" }}>
          {words.returned} <Code>{attempt.result ?? words.tooLong(attempt.result_bytes ?? 0)}</Code>
        </Text>
      )}
      {shown ? (
        <Tabs defaultValue="stdout" mt="xs" keepMounted={false}>
          <Tabs.List mb={6}>
            <Tabs.Tab value="stdout">stdout</Tabs.Tab>
            <Tabs.Tab value="stderr">stderr</Tabs.Tab>
          </Tabs.List>
          <Tabs.Panel value="stdout">
            <Output id={id} no={no} attempt={attempt} stream="stdout" />
          </Tabs.Panel>
          <Tabs.Panel value="stderr">
            <Output id={id} no={no} attempt={attempt} stream="stderr" />
          </Tabs.Panel>
        </Tabs>
      ) : (
        <Button size="compact-xs" variant="subtle" mt={4} onClick={() => setShown(true)}>
          {words.output}
        </Button>
      )}
    </Paper>
  );
}

function History({ id, no, zone }: { id: string; no: number; zone: string | undefined }) {
  const { shard: words } = useWords();
  return (
    <Paper withBorder p="sm" component="section" aria-label={words.history}>
      <Text fw={600} size="sm" mb={4}>
        {words.history}
      </Text>
      <Timeline id={id} shard={no} zone={zone} />
    </Paper>
  );
}
