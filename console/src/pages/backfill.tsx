// One backfill: how far it is, what it waits for, and turning it.
import { Alert, Progress, Text } from "@mantine/core";
import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useParams } from "react-router";
import { act } from "../api/actions";
import type { Backfill } from "../api/client";
import { query } from "../api/queries";
import { useWords } from "../i18n/words";
import { Instant } from "../time/zone";
import { Confirm, Effect } from "../ui/confirm";
import { Loaded, Refusal } from "../ui/loaded";
import { MayButton } from "../ui/may";
import { Fact, Facts, JobLink, More, Page, Section } from "../ui/parts";
import { RunRows } from "../ui/run_rows";
import { State } from "../ui/state";

export default function BackfillPage() {
  const { id = "" } = useParams();
  const asked = useQuery(query.backfill(Number(id)));
  return <Loaded asked={asked}>{(found) => <Found backfill={found} />}</Loaded>;
}

function Found({ backfill }: { backfill: Backfill }) {
  const { backfill: words, words: common, runs, states } = useWords();
  const cache = useQueryClient();
  const [ending, setEnding] = useState(false);
  const turning = useMutation({
    mutationFn: (turn: "pause" | "resume") => act.turnBackfill(backfill.id, turn),
    onSuccess: () => void cache.invalidateQueries(),
  });
  const started = useInfiniteQuery(query.runs({ backfill: backfill.id }));
  const over = backfill.state === "finished" || backfill.state === "cancelled";
  const { done, remaining } = backfill.instants;
  const all = done + (remaining ?? 0);
  return (
    <Page
      title={
        <>
          {words.id} #{backfill.id} <State state={backfill.state} />
        </>
      }
      aside={
        !over && (
          <>
            <MayButton
              needs="operator"
              namespace={backfill.namespace}
              size="xs"
              variant="default"
              loading={turning.isPending}
              onClick={() => turning.mutate(backfill.state === "paused" ? "resume" : "pause")}
            >
              {backfill.state === "paused" ? words.resume : words.pause}
            </MayButton>
            <MayButton
              needs="operator"
              namespace={backfill.namespace}
              size="xs"
              variant="outline"
              color="red"
              onClick={() => setEnding(true)}
            >
              {words.cancel}
            </MayButton>
          </>
        )
      }
    >
      {turning.error && (
        <Alert color="red" role="alert">
          <Refusal error={turning.error} />
        </Alert>
      )}
      <Facts>
        <Fact word={common.job}>
          <JobLink job={{ namespace: backfill.namespace, name: backfill.job }} />
        </Fact>
        <Fact word={words.from}>
          <Instant at={backfill.from} />
        </Fact>
        <Fact word={words.to}>
          <Instant at={backfill.to} />
        </Fact>
        <Fact word={words.mode}>{backfill.mode}</Fact>
        <Fact word={words.parallelism}>{backfill.parallelism}</Fact>
        <Fact word={words.why}>{backfill.reason || "–"}</Fact>
        <Fact word={states.running}>{common.number(backfill.runs.open)}</Fact>
        <Fact word={states.succeeded}>{common.number(backfill.runs.succeeded)}</Fact>
        <Fact word={states.failed}>{common.number(backfill.runs.failed)}</Fact>
        <Fact word={states.cancelled}>{common.number(backfill.runs.cancelled)}</Fact>
        {backfill.next_at && (
          <Fact word={common.next}>
            <Instant at={backfill.next_at} />
          </Fact>
        )}
        {backfill.cause && <Fact word={common.reason}>{backfill.cause}</Fact>}
      </Facts>
      <div>
        <Progress value={all > 0 ? (100 * done) / all : 0} aria-label={common.progress} />
        <Text size="sm" mt={4}>
          {words.done(done)}
          {remaining != null && ` · ${words.remaining(remaining)}`}
        </Text>
      </div>
      <Section title={runs.title}>
        <Loaded asked={started}>
          {({ pages }) => (
            <>
              <RunRows runs={pages.flatMap((page) => page.items)} label={runs.title} />
              <More asked={started} />
            </>
          )}
        </Loaded>
      </Section>
      <Confirm
        opened={ending}
        close={() => setEnding(false)}
        title={words.cancelTitle(backfill.id)}
        go={words.cancel}
        color="red"
        type={{ text: backfill.job, ask: useWords().pause.type(backfill.job) }}
        act={() => act.turnBackfill(backfill.id, "cancel")}
      >
        <Effect>{words.cancelEffect}</Effect>
      </Confirm>
    </Page>
  );
}
