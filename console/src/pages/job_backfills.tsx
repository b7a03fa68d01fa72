// A job's backfills, and asking for one.
import {
  Alert,
  Button,
  Group,
  NumberInput,
  Select,
  SimpleGrid,
  Stack,
  Table,
  Text,
  TextInput,
} from "@mantine/core";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useNavigate } from "react-router";
import { act } from "../api/actions";
import type { Job, StartBackfill } from "../api/client";
import { query, shownJob } from "../api/queries";
import { useWords } from "../i18n/words";
import { Instant } from "../time/zone";
import { Confirm } from "../ui/confirm";
import { Listing } from "../ui/listing";
import { Loaded } from "../ui/loaded";
import { Rows, Section, To } from "../ui/parts";
import { State } from "../ui/state";
import { freshKey } from "./job_actions";

export function Backfills({ job }: { job: Job }) {
  const { job: words, words: common, backfill } = useWords();
  const asked = useInfiniteQuery(query.backfills(job));
  return (
    <Section title={words.backfills}>
      <Listing asked={asked} none={words.noBackfills}>
        {(items) => (
          <Rows
            label={words.backfills}
            heads={[backfill.id, common.state, words.from, words.to, common.progress]}
          >
            {items.map((item) => (
              <Table.Tr key={item.id}>
                <Table.Td>
                  <To to={`/backfills/${item.id}`}>#{item.id}</To>
                </Table.Td>
                <Table.Td>
                  <State state={item.state} />
                </Table.Td>
                <Table.Td>
                  <Instant at={item.from} zone={job.time_zone} />
                </Table.Td>
                <Table.Td>
                  <Instant at={item.to} zone={job.time_zone} />
                </Table.Td>
                <Table.Td style={{ whiteSpace: "nowrap" }}>
                  {backfill.done(item.instants.done)}
                </Table.Td>
              </Table.Tr>
            ))}
          </Rows>
        )}
      </Listing>
    </Section>
  );
}

type Wish = {
  from: string;
  to: string;
  mode: string;
  order: string;
  parallelism: number;
  rate: number | "";
  reason: string;
};

const EMPTY: Wish = {
  from: "",
  to: "",
  mode: "only_missing",
  order: "oldest",
  parallelism: 1,
  rate: "",
  reason: "",
};

function request(wish: Wish): StartBackfill {
  const { rate, ...rest } = wish;
  return { ...rest, from: wish.from.trim(), to: wish.to.trim(), ...(rate === "" ? {} : { rate }) };
}

export function StartBackfillForm({
  job,
  opened,
  close,
}: {
  job: Job;
  opened: boolean;
  close: () => void;
}) {
  const { backfill } = useWords();
  const navigate = useNavigate();
  const [wish, setWish] = useState<Wish>(EMPTY);
  // Of one backfill, however often it is sent.
  const [key, setKey] = useState(freshKey);
  const [previewed, setPreviewed] = useState<StartBackfill | null>(null);
  const change = (part: Partial<Wish>) => {
    setWish((old) => ({ ...old, ...part }));
    setPreviewed(null);
  };
  const complete = wish.from.trim() !== "" && wish.to.trim() !== "";
  return (
    <Confirm
      opened={opened}
      close={close}
      title={backfill.title(shownJob(job))}
      go={backfill.go}
      ready={previewed !== null}
      act={async () => {
        const made = await act.startBackfill(job, { ...request(wish), key });
        setKey(freshKey());
        navigate(`/backfills/${made.id}`);
      }}
    >
      <SimpleGrid cols={{ base: 1, sm: 2 }}>
        <TextInput
          label={backfill.from}
          placeholder="2026-08-30T00:00:00+08:00"
          value={wish.from}
          onChange={(event) => change({ from: event.currentTarget.value })}
        />
        <TextInput
          label={backfill.to}
          placeholder="2026-09-30T00:00:00+08:00"
          value={wish.to}
          onChange={(event) => change({ to: event.currentTarget.value })}
        />
        <Select
          label={backfill.mode}
          allowDeselect={false}
          value={wish.mode}
          onChange={(mode) => change({ mode: mode ?? "only_missing" })}
          data={[
            { value: "only_missing", label: backfill.onlyMissing },
            { value: "only_failed", label: backfill.onlyFailed },
            { value: "all", label: backfill.all },
          ]}
        />
        <Select
          label={backfill.order}
          allowDeselect={false}
          value={wish.order}
          onChange={(order) => change({ order: order ?? "oldest" })}
          data={[
            { value: "oldest", label: backfill.oldest },
            { value: "newest", label: backfill.newest },
          ]}
        />
        <NumberInput
          label={backfill.parallelism}
          min={1}
          max={1000}
          value={wish.parallelism}
          onChange={(value) => change({ parallelism: Number(value) || 1 })}
        />
        <NumberInput
          label={backfill.rate}
          min={1}
          max={60_000}
          value={wish.rate}
          onChange={(value) => change({ rate: value === "" ? "" : Number(value) })}
        />
      </SimpleGrid>
      <TextInput
        label={backfill.why}
        value={wish.reason}
        onChange={(event) => change({ reason: event.currentTarget.value })}
      />
      <Group>
        <Button variant="default" disabled={!complete} onClick={() => setPreviewed(request(wish))}>
          {backfill.preview}
        </Button>
      </Group>
      {previewed && <WouldDo job={job} wanted={previewed} />}
    </Confirm>
  );
}

function WouldDo({ job, wanted }: { job: Job; wanted: StartBackfill }) {
  const { backfill, words } = useWords();
  const asked = useQuery(query.backfillPreview(job, wanted));
  return (
    <Loaded asked={asked}>
      {(preview) => (
        <Stack gap="xs">
          <Alert color="cyan">{backfill.would(preview.instants, preview.waiting)}</Alert>
          <div style={{ maxHeight: 240, overflowY: "auto" }}>
            <Rows label={backfill.preview} heads={[words.planned, words.actions, words.run]}>
              {preview.items.map((item) => (
                <Table.Tr key={item.at}>
                  <Table.Td>
                    <Instant at={item.at} zone={job.time_zone} />
                  </Table.Td>
                  <Table.Td>
                    {(backfill.action as Record<string, string>)[item.action] ?? item.action}
                    {item.why && (
                      <Text span size="xs" c="dimmed">
                        {" "}
                        {(backfill.whyLeft as Record<string, string>)[item.why] ?? item.why}
                      </Text>
                    )}
                  </Table.Td>
                  <Table.Td>{item.run ? `#${item.run}` : "–"}</Table.Td>
                </Table.Tr>
              ))}
            </Rows>
          </div>
        </Stack>
      )}
    </Loaded>
  );
}
