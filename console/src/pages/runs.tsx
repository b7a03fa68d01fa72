// Runs, newest first.
import { Group, Select, TextInput } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { useSearchParams } from "react-router";
import { query } from "../api/queries";
import { useWords } from "../i18n/words";
import { Listing } from "../ui/listing";
import { Page, Section } from "../ui/parts";
import { RunRows } from "../ui/run_rows";

const STATES = ["scheduled", "running", "succeeded", "partial", "failed", "cancelled"] as const;

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
        <Listing asked={asked} none={runs.none}>
          {(items) => <RunRows runs={items} label={runs.title} />}
        </Listing>
      </Section>
    </Page>
  );
}
