// Runs, newest first.
import { Group, Select, TextInput } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { useSearchParams } from "react-router";
import type { Run } from "../api/client";
import { query } from "../api/queries";
import { useWords } from "../i18n/words";
import { Listing } from "../ui/listing";
import { LongRows } from "../ui/long_rows";
import { Page, Section } from "../ui/parts";
import { RunCells } from "../ui/run_rows";

const STATES = ["scheduled", "running", "succeeded", "partial", "failed", "cancelled"] as const;

const cells = (run: Run) => <RunCells run={run} />;

export default function Runs() {
  const { runs, words, states } = useWords();
  const [params, setParams] = useSearchParams();
  const state = params.get("state") ?? undefined;
  const job = params.get("job") ?? undefined;
  const [text, setText] = useState(job ?? "");
  const [settled] = useDebouncedValue(text, 400);
  const change = (name: string, value: string | null | undefined) =>
    setParams((old) => {
      const fresh = new URLSearchParams(old);
      if (value) fresh.set(name, value);
      else fresh.delete(name);
      return fresh;
    });
  useEffect(() => {
    if (settled !== (job ?? "")) change("job", settled);
  }, [settled]);
  const asked = useInfiniteQuery(query.runs({ job, state }));
  return (
    <Page title={runs.title}>
      <Group align="flex-end">
        <Select
          size="xs"
          label={words.state}
          placeholder={words.anyState}
          clearable
          value={state ?? null}
          onChange={(value) => change("state", value)}
          data={STATES.map((value) => ({ value, label: states[value] }))}
        />
        <TextInput
          size="xs"
          w={260}
          label={runs.job}
          value={text}
          onChange={(event) => setText(event.currentTarget.value)}
        />
      </Group>
      <Section title={runs.title}>
        <Listing asked={asked} none={runs.none} long>
          {(items) => (
            <LongRows
              label={runs.title}
              columns={[
                { head: words.run, part: 90 },
                { head: words.job, part: 170 },
                { head: words.state, part: 130 },
                { head: words.planned, part: 240 },
                { head: words.progress, part: 200 },
                { head: words.took, part: 90 },
                { head: words.started, part: 240 },
              ]}
              rows={items}
              keyOf={(run) => run.id}
              row={cells}
              asked={asked}
              queryKey={query.runs({ job, state }).queryKey}
              height={37}
            />
          )}
        </Listing>
      </Section>
    </Page>
  );
}
