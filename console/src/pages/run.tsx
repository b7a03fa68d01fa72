// One run: how far it is and why, its shards, its timeline.
import { Alert, Badge, Code, Group, List, Stack, Tabs, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useNavigate, useParams, useSearchParams } from "react-router";
import { act } from "../api/actions";
import type { Run } from "../api/client";
import { query } from "../api/queries";
import { useWords } from "../i18n/words";
import { between, length } from "../time/instant";
import { Instant } from "../time/zone";
import { Confirm, Effect } from "../ui/confirm";
import { Loaded } from "../ui/loaded";
import { MayButton } from "../ui/may";
import { Copied, Fact, Facts, JobLink, Page, Section, ShardBar, To } from "../ui/parts";
import { RunState } from "../ui/state";
import { Gantt } from "./gantt";
import { ShardDrawer } from "./shard";
import { ShardGrid } from "./shard_grid";
import { Timeline } from "./timeline";

export default function RunPage() {
  const { id = "" } = useParams();
  const asked = useQuery(query.run(id));
  return <Loaded asked={asked}>{(run) => <Found run={run} />}</Loaded>;
}

function Found({ run }: { run: Run }) {
  const { run: words, words: common } = useWords();
  const [params, setParams] = useSearchParams();
  const [asking, setAsking] = useState<"cancel" | "retry" | null>(null);
  const job = useQuery(query.job({ namespace: run.namespace, name: run.job }));
  const zone = run.nominal?.zone ?? job.data?.time_zone;
  const shard = params.get("shard");
  const choose = (no: number | null) =>
    setParams((old) => {
      const fresh = new URLSearchParams(old);
      if (no === null) fresh.delete("shard");
      else fresh.set("shard", String(no));
      return fresh;
    });
  const mayRetry = run.state === "failed" || run.state === "partial";
  return (
    <Page
      title={
        <Group gap="sm">
          {common.run} #{run.id}
          <RunState run={run} />
        </Group>
      }
      aside={
        <>
          {mayRetry && (
            <MayButton
              needs="operator"
              namespace={run.namespace}
              size="xs"
              onClick={() => setAsking("retry")}
            >
              {words.retry}
            </MayButton>
          )}
          {!run.ended_at && (
            <MayButton
              needs="operator"
              namespace={run.namespace}
              size="xs"
              variant="outline"
              color="red"
              onClick={() => setAsking("cancel")}
            >
              {words.cancel}
            </MayButton>
          )}
        </>
      }
    >
      <Text size="sm">
        <JobLink job={{ namespace: run.namespace, name: run.job }} />
      </Text>
      {run.stop && !run.ended_at && (
        <Alert color="grape">
          {words.stop(`${run.stop.cause} ${run.stop.detail ?? ""}`.trim())}
        </Alert>
      )}
      <About run={run} zone={zone} />
      <Group gap="md" align="center">
        <div style={{ flex: 1, minWidth: 200 }}>
          <ShardBar run={run} wide />
        </div>
        {run.progress && (
          <Text size="sm" c="dimmed">
            {words.items(run.progress.done)}
            {run.progress.rate_milli > 0 &&
              ` · ${words.rate(common.number(run.progress.rate_milli / 1000))}`}
          </Text>
        )}
      </Group>
      <Explained run={run} />
      <Tabs
        value={params.get("view") ?? "shards"}
        onChange={(view) =>
          setParams((old) => {
            const fresh = new URLSearchParams(old);
            fresh.set("view", view ?? "shards");
            return fresh;
          })
        }
        keepMounted={false}
      >
        <Tabs.List mb="sm">
          <Tabs.Tab value="shards">{words.shards}</Tabs.Tab>
          <Tabs.Tab value="gantt">{words.gantt}</Tabs.Tab>
          <Tabs.Tab value="timeline">{words.timeline}</Tabs.Tab>
          <Tabs.Tab value="parameters">{words.parameters}</Tabs.Tab>
        </Tabs.List>
        <Tabs.Panel value="shards">
          <ShardGrid run={run} chosen={shard === null ? null : Number(shard)} choose={choose} />
        </Tabs.Panel>
        <Tabs.Panel value="gantt">
          <Gantt run={run} zone={zone} choose={choose} />
        </Tabs.Panel>
        <Tabs.Panel value="timeline">
          <Section title={words.timeline}>
            <Timeline id={String(run.id)} zone={zone} choose={choose} />
          </Section>
        </Tabs.Panel>
        <Tabs.Panel value="parameters">
          <pre className="output" tabIndex={0}>
            {JSON.stringify(run.parameters, null, 2)}
          </pre>
        </Tabs.Panel>
      </Tabs>
      <ShardDrawer
        zone={zone}
        run={run}
        no={shard === null ? null : Number(shard)}
        close={() => choose(null)}
      />
      <Actions run={run} asking={asking} close={() => setAsking(null)} />
    </Page>
  );
}

function About({ run, zone }: { run: Run; zone: string | undefined }) {
  const { run: words, words: common } = useWords();
  return (
    <Facts>
      <Fact word={common.planned}>
        {run.planned_at ? <Instant at={run.planned_at} zone={zone} /> : common.byRequest}
      </Fact>
      <Fact word={common.created}>
        <Instant at={run.created_at} zone={zone} />
      </Fact>
      <Fact word={common.started}>
        <Instant at={run.started_at} zone={zone} />
      </Fact>
      <Fact word={common.ended}>
        <Instant at={run.ended_at} zone={zone} />
        {run.started_at && run.ended_at && (
          <Text size="xs" c="dimmed">
            {length(between(run.started_at, run.ended_at), common.units)}
          </Text>
        )}
      </Fact>
      <Fact word={`${common.pool} · ${common.handler}`}>
        {run.pool} · {run.handler}
      </Fact>
      <Fact word={`${common.revision} · ${words.round}`}>
        {run.revision} · {run.round}
      </Fact>
      <Fact word={words.key}>
        <Group gap={4} wrap="nowrap">
          <Code>{run.key}</Code> <Copied text={run.key} word={words.key} />
        </Group>
      </Fact>
      <Fact word={words.trace}>
        <Group gap={4} wrap="nowrap">
          <Code>{run.trace_id}</Code> <Copied text={run.trace_id ?? ""} word={words.trace} />
        </Group>
      </Fact>
      {run.reason && <Fact word={common.reason}>{run.reason}</Fact>}
      {run.deadline && (
        <Fact word={words.deadline}>
          <Instant at={run.deadline} zone={zone} />
        </Fact>
      )}
      {run.backfill != null && (
        <Fact word={words.backfill}>
          <To to={`/backfills/${run.backfill}`}>#{run.backfill}</To>
        </Fact>
      )}
    </Facts>
  );
}

function Explained({ run }: { run: Run }) {
  const { run: words } = useWords();
  const asked = useQuery(query.explain(String(run.id)));
  return (
    <Section title={words.explain}>
      <Loaded asked={asked}>
        {({ reasons }) => (
          <List size="sm" listStyleType="none" spacing={4}>
            {reasons.map((why) => (
              <List.Item key={`${why.word} ${why.text}`}>
                <Badge variant="default" radius="sm" tt="none" mr="xs">
                  {(words.why as Record<string, string>)[why.word] ?? why.word}
                </Badge>
                {why.text}
              </List.Item>
            ))}
          </List>
        )}
      </Loaded>
    </Section>
  );
}

function Actions({
  run,
  asking,
  close,
}: {
  run: Run;
  asking: "cancel" | "retry" | null;
  close: () => void;
}) {
  const { run: words, pause } = useWords();
  const navigate = useNavigate();
  const id = String(run.id);
  return (
    <Stack>
      <Confirm
        opened={asking === "cancel"}
        close={close}
        title={words.cancelTitle(run.id)}
        type={{ text: run.job, ask: pause.type(run.job) }}
        go={words.cancelGo}
        color="red"
        act={() => act.cancelRun(id)}
      >
        <Effect>{words.cancelEffect(run.shards.open)}</Effect>
      </Confirm>
      <Confirm
        opened={asking === "retry"}
        close={close}
        title={words.retryTitle(run.id)}
        go={words.retryGo}
        act={() => act.retryRun(id)}
        done={() => navigate(`/runs/${id}`)}
      >
        <Effect>{words.retryEffect(run.shards.failed, run.shards.cancelled)}</Effect>
      </Confirm>
    </Stack>
  );
}
