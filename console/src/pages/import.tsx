// Jobs of other schedulers, pasted: read, looked at line by line, then applied.
//
// Invariants: nothing is written before it was shown. A job that is switched off at its source is there
// and paused before it has a schedule, so that no time of it is ever started.
import {
  Alert,
  Button,
  Group,
  List,
  Select,
  Stack,
  Table,
  Textarea,
  TextInput,
} from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { act } from "../api/actions";
import { type Imported, type ImportedJob, Refused } from "../api/client";
import { query, shownJob } from "../api/queries";
import { useWords } from "../i18n/words";
import { browserZone } from "../time/instant";
import { Empty, Refusal } from "../ui/loaded";
import { MayButton } from "../ui/may";
import { JobLink, Page, Rows, Section } from "../ui/parts";
import { Dot } from "../ui/state";

const KINDS = ["crontab", "system-crontab", "kubernetes"] as const;

const PLACEHOLDER = `# m h dom mon dow command
30 3 * * * /usr/local/bin/backup --all
*/5 * * * 1-5 /opt/settle/run.sh`;

export default function Import() {
  const { importing } = useWords();
  const [kind, setKind] = useState<string>("crontab");
  const [zone, setZone] = useState(browserZone);
  const [namespace, setNamespace] = useState("default");
  const [pool, setPool] = useState("");
  const [text, setText] = useState("");
  const reading = useMutation({
    mutationFn: () =>
      act.readForeign(text, {
        from: kind,
        ...(zone.trim() ? { time_zone: zone.trim() } : {}),
        namespace: namespace.trim() || "default",
        ...(pool.trim() ? { pool: pool.trim() } : {}),
      }),
  });
  return (
    <Page title={importing.title}>
      <p className="dimmed" style={{ margin: 0 }}>
        {importing.hint}
      </p>
      <Group align="flex-start">
        <Select
          w={280}
          label={importing.from}
          allowDeselect={false}
          value={kind}
          onChange={(value) => setKind(value ?? "crontab")}
          data={KINDS.map((value) => ({ value, label: importing.kinds[value] }))}
        />
        <TextInput
          label={importing.zone}
          description={importing.zoneHint}
          inputWrapperOrder={["label", "input", "description", "error"]}
          value={zone}
          onChange={(event) => setZone(event.currentTarget.value)}
        />
        <TextInput
          label={importing.namespace}
          value={namespace}
          onChange={(event) => setNamespace(event.currentTarget.value)}
        />
        <TextInput
          label={importing.pool}
          placeholder="default"
          value={pool}
          onChange={(event) => setPool(event.currentTarget.value)}
        />
      </Group>
      <Textarea
        label={importing.text}
        placeholder={PLACEHOLDER}
        autosize
        minRows={6}
        maxRows={24}
        spellCheck={false}
        styles={{ input: { fontFamily: "var(--mantine-font-family-monospace)", fontSize: 13 } }}
        value={text}
        onChange={(event) => {
          setText(event.currentTarget.value);
          reading.reset();
        }}
      />
      <Group>
        <Button
          disabled={text.trim() === ""}
          loading={reading.isPending}
          onClick={() => reading.mutate()}
        >
          {importing.read}
        </Button>
      </Group>
      {reading.error && (
        <Alert color="red" role="alert">
          <Refusal error={reading.error} />
        </Alert>
      )}
      {reading.data && (
        <Found
          key={reading.submittedAt}
          found={reading.data}
          text={text}
          namespace={namespace.trim() || "default"}
        />
      )}
    </Page>
  );
}

function Found({ found, text, namespace }: { found: Imported; text: string; namespace: string }) {
  const { importing } = useWords();
  const refused = found.remarks.filter(({ level }) => level === "refused").length;
  if (found.jobs.length + found.remarks.length === 0) return <Empty>{importing.nothing}</Empty>;
  return (
    <>
      <Section title={importing.report}>
        <Stack>
          <Alert color={refused > 0 ? "orange" : "teal"} role="status">
            {importing.counts(found.jobs.length, refused)}
          </Alert>
          <Report found={found} lines={text.split("\n")} />
        </Stack>
      </Section>
      {found.jobs.length > 0 && (
        <Section title={importing.documents}>
          <Stack>
            <pre className="output" tabIndex={0} role="region" aria-label={importing.documents}>
              {found.text}
            </pre>
            <Apply found={found} refused={refused} namespace={namespace} />
          </Stack>
        </Section>
      )}
    </>
  );
}

const LEVELS: Record<string, string> = { refused: "red", warning: "orange", note: "gray" };

/** Each line of the source that has a job or a remark, in their order. */
function Report({ found, lines }: { found: Imported; lines: string[] }) {
  const { importing } = useWords();
  const numbers = [...new Set([...found.jobs, ...found.remarks].map(({ line }) => line))].sort(
    (a, b) => a - b,
  );
  return (
    <Rows label={importing.report} heads={[importing.line, importing.source, importing.becomes]}>
      {numbers.map((number) => (
        <Table.Tr key={number} style={{ verticalAlign: "top" }}>
          <Table.Td>{number}</Table.Td>
          <Table.Td style={{ maxWidth: 420 }}>
            <code style={{ overflowWrap: "anywhere" }}>{lines[number - 1]?.trim()}</code>
          </Table.Td>
          <Table.Td>
            <Stack gap={4}>
              {found.jobs
                .filter(({ line }) => line === number)
                .map((job) => (
                  <Becomes key={shownJob(job)} job={job} />
                ))}
              {found.remarks
                .filter(({ line }) => line === number)
                .map((remark) => (
                  <Group
                    key={`${remark.level} ${remark.field} ${remark.message}`}
                    gap="xs"
                    wrap="nowrap"
                    align="flex-start"
                  >
                    <Dot color={LEVELS[remark.level] ?? "gray"}>
                      {(importing.levels as Record<string, string>)[remark.level] ?? remark.level}
                    </Dot>
                    <span>
                      {remark.field && <code>{remark.field}</code>} {remark.message}
                    </span>
                  </Group>
                ))}
            </Stack>
          </Table.Td>
        </Table.Tr>
      ))}
    </Rows>
  );
}

function Becomes({ job }: { job: ImportedJob }) {
  const { importing } = useWords();
  return (
    <span>
      <b>{shownJob(job)}</b>
      <span className="dimmed">
        {" "}
        · {importing.proved(job.proved)}
        {job.paused && ` · ${importing.pausedJob}`}
      </span>
    </span>
  );
}

function Apply({
  found,
  refused,
  namespace,
}: {
  found: Imported;
  refused: number;
  namespace: string;
}) {
  const { importing, edit } = useWords();
  const cache = useQueryClient();
  const applying = useMutation({
    mutationFn: async () => {
      for (const job of found.jobs) {
        if (job.paused) await pauseFirst(job, () => cache.fetchQuery(query.job(job)));
      }
      return act.apply(found.text);
    },
    onSettled: () => void cache.invalidateQueries(),
  });
  return (
    <>
      <Group>
        <MayButton
          needs="editor"
          namespace={namespace}
          loading={applying.isPending}
          onClick={() => applying.mutate()}
        >
          {refused > 0 ? importing.applyAll : importing.apply(found.jobs.length)}
        </MayButton>
      </Group>
      {applying.error && (
        <Alert color="red" role="alert" title={importing.failed}>
          <Refusal error={applying.error} />
        </Alert>
      )}
      {applying.data && (
        <Alert color="teal" role="status" title={importing.done}>
          <List size="sm">
            {applying.data.documents.map((one) => (
              <List.Item key={one.uid}>
                <JobLink job={one} /> {edit[one.change]}
              </List.Item>
            ))}
          </List>
        </Alert>
      )}
    </>
  );
}

/** Sees to it that a job is there and paused, without a schedule if it was not. */
async function pauseFirst(job: ImportedJob, read: () => Promise<{ paused: boolean }>) {
  try {
    if ((await read()).paused) return;
  } catch (error) {
    if (!(error instanceof Refused && error.status === 404)) throw error;
    const document = job.document as { spec?: Record<string, unknown> };
    const idle = { ...document, spec: { ...document.spec, schedules: [] } };
    await act.apply(JSON.stringify(idle));
  }
  await act.pause(job);
}
