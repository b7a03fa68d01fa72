// A job's document as YAML, through its revisions.
import { Group, Select, Stack } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { stringify } from "yaml";
import { act } from "../api/actions";
import type { Job } from "../api/client";
import { query, shownJob } from "../api/queries";
import { useWords } from "../i18n/words";
import { Confirm, Effect } from "../ui/confirm";
import { Diff } from "../ui/diff";
import { Loaded } from "../ui/loaded";
import { MayButton } from "../ui/may";
import { Copied, Section } from "../ui/parts";

/** A document as people write it. */
export function yaml(document: unknown): string {
  return stringify(document, { lineWidth: 100 });
}

export function Documents({ job }: { job: Job }) {
  const { job: words, words: common, pause } = useWords();
  const [shown, setShown] = useState<number | null>(null);
  const [against, setAgainst] = useState<number | null>(null);
  const [bringing, setBringing] = useState(false);
  const revision = shown ?? job.revision;
  const asked = useQuery(query.revision(job, revision));
  const compared = useQuery({
    ...query.revision(job, against ?? revision),
    enabled: against !== null,
  });
  const options = Array.from({ length: Math.min(job.revision, 500) }, (_, index) => {
    const number = job.revision - index;
    const label = number === job.revision ? `${number} (${words.inForce})` : String(number);
    return { value: String(number), label };
  });
  return (
    <Section title={words.document}>
      <Stack gap="xs">
        <Group align="flex-end" gap="xs">
          <Select
            size="xs"
            w={150}
            label={common.revision}
            data={options}
            value={String(revision)}
            allowDeselect={false}
            onChange={(value) => setShown(Number(value))}
          />
          {job.revision > 1 && (
            <Select
              size="xs"
              w={170}
              label={words.compare}
              data={options.filter((option) => option.value !== String(revision))}
              value={against === null ? null : String(against)}
              clearable
              onChange={(value) => setAgainst(value === null ? null : Number(value))}
            />
          )}
          {revision !== job.revision && (
            <MayButton
              needs="editor"
              namespace={job.namespace}
              size="xs"
              variant="default"
              onClick={() => setBringing(true)}
            >
              {words.rollback(revision)}
            </MayButton>
          )}
        </Group>
        <Loaded asked={asked}>
          {(found) => (
            <>
              {against !== null && compared.data ? (
                <Diff before={yaml(compared.data.document)} after={yaml(found.document)} />
              ) : (
                <Group align="flex-start" gap="xs" wrap="nowrap">
                  <pre className="output" style={{ flex: 1 }} tabIndex={0}>
                    {yaml(found.document)}
                  </pre>
                  <Copied text={yaml(found.document)} word={words.document} />
                </Group>
              )}
              <Confirm
                opened={bringing}
                close={() => setBringing(false)}
                title={words.rollback(revision)}
                type={{ text: job.name, ask: pause.type(job.name) }}
                go={words.rollback(revision)}
                color="orange"
                act={() => act.apply(yaml(found.document))}
                done={() => setShown(null)}
              >
                <Effect>{shownJob(job)}</Effect>
                <Current job={job} after={yaml(found.document)} />
              </Confirm>
            </>
          )}
        </Loaded>
      </Stack>
    </Section>
  );
}

function Current({ job, after }: { job: Job; after: string }) {
  const asked = useQuery(query.revision(job, job.revision));
  return (
    <Loaded asked={asked}>{(found) => <Diff before={yaml(found.document)} after={after} />}</Loaded>
  );
}
