// A job's document as a form: the fields that most jobs have. The rest stays as the text has it.
import {
  Alert,
  Button,
  Fieldset,
  Group,
  NumberInput,
  Select,
  SimpleGrid,
  Stack,
  Textarea,
  TextInput,
} from "@mantine/core";
import { useState } from "react";
import { parse, stringify } from "yaml";
import { useWords } from "../i18n/words";
import {
  jobIn,
  type Path,
  type Schedule,
  schedulesOf,
  valueAt,
  WAYS,
  type Way,
  withMore,
  withSchedule,
  withValue,
} from "./job_form_text";

interface Editing {
  text: string;
  change: (text: string) => void;
  /** A job that is there keeps its name. */
  named: boolean;
}

export function JobForm({ text, change, named }: Editing) {
  const { form } = useWords();
  const document = jobIn(text);
  if (document === null) return <Alert color="gray">{form.notOne}</Alert>;
  const at = (path: Path) => valueAt(document, path);
  const put = (path: Path, value: unknown) => change(withValue(text, path, value));
  const fields: Fields = { at, put };
  return (
    <Stack>
      <Fieldset legend={form.what}>
        <SimpleGrid cols={{ base: 1, sm: 2, lg: 3 }}>
          <TextField {...fields} path={["metadata", "name"]} word={form.name} fixed={named} />
          <TextField
            {...fields}
            path={["metadata", "namespace"]}
            word={form.namespace}
            usual="default"
            fixed={named}
          />
          <TextField {...fields} path={["metadata", "title"]} word={form.title} />
          <What {...fields} />
          <TextField {...fields} path={["spec", "pool"]} word={form.pool} usual="default" />
          <NumberField {...fields} path={["spec", "priority"]} word={form.priority} usual="0" />
        </SimpleGrid>
        <Parameters {...fields} />
      </Fieldset>
      <Fieldset legend={form.when}>
        <Stack gap="sm">
          <Schedules text={text} change={change} schedules={schedulesOf(document)} />
          <SimpleGrid cols={{ base: 1, sm: 2, lg: 3 }}>
            <TextField {...fields} path={["spec", "timeZone"]} word={form.timeZone} usual="UTC" />
            <Overlap {...fields} />
            <ChoiceField
              {...fields}
              path={["spec", "catchUp", "policy"]}
              word={form.catchUp}
              words={form.catchUps}
            />
            <TextField
              {...fields}
              path={["spec", "catchUp", "startingDeadline"]}
              word={form.startingDeadline}
              hint={form.lengthHint}
            />
            <TextField
              {...fields}
              path={["spec", "jitter"]}
              word={form.jitter}
              hint={form.lengthHint}
            />
          </SimpleGrid>
        </Stack>
      </Fieldset>
      <Fieldset legend={form.how}>
        <SimpleGrid cols={{ base: 1, sm: 2, lg: 3 }}>
          <Shards {...fields} />
          <NumberField
            {...fields}
            path={["spec", "parallelism"]}
            word={form.parallelism}
            usual={form.allSlots}
          />
          <NumberField
            {...fields}
            path={["spec", "retry", "maxAttempts"]}
            word={form.attempts}
            usual="3"
          />
          <TextField
            {...fields}
            path={["spec", "timeouts", "attempt"]}
            word={form.attemptTimeout}
            hint={form.lengthHint}
          />
          <TextField
            {...fields}
            path={["spec", "timeouts", "run"]}
            word={form.runTimeout}
            hint={form.lengthHint}
          />
        </SimpleGrid>
      </Fieldset>
    </Stack>
  );
}

interface Fields {
  at: (path: Path) => unknown;
  put: (path: Path, value: unknown) => void;
}

interface Field extends Fields {
  path: Path;
  word: string;
  hint?: string;
  /** What holds if it is left out. */
  usual?: string;
  fixed?: boolean;
}

function TextField({ at, put, path, word, hint, usual, fixed }: Field) {
  const value = at(path);
  return (
    <TextInput
      label={word}
      description={hint}
      placeholder={usual}
      readOnly={fixed}
      variant={fixed ? "filled" : undefined}
      value={value == null ? "" : String(value)}
      onChange={(event) => put(path, event.currentTarget.value || undefined)}
    />
  );
}

function NumberField({ at, put, path, word, usual }: Field) {
  const value = at(path);
  return (
    <NumberInput
      label={word}
      placeholder={usual}
      allowDecimal={false}
      value={typeof value === "number" ? value : ""}
      onChange={(next) => put(path, next === "" ? undefined : Number(next))}
    />
  );
}

function ChoiceField({
  at,
  put,
  path,
  word,
  words,
}: Field & { words: Readonly<Record<string, string>> }) {
  const { form } = useWords();
  const value = at(path);
  const known = value === undefined || (typeof value === "string" && value in words);
  const options = Object.entries(words).map(([name, label]) => ({ value: name, label }));
  if (!known) options.push({ value: "?", label: form.asInYaml });
  return (
    <Select
      label={word}
      clearable
      placeholder={form.usual}
      value={known ? ((value as string | undefined) ?? null) : "?"}
      onChange={(next) => next !== "?" && put(path, next ?? undefined)}
      data={options}
    />
  );
}

/** The handler, or the process with an argument a line. */
function What({ at, put }: Fields) {
  const { form } = useWords();
  const argv = at(["spec", "run", "process", "argv"]);
  if (Array.isArray(argv)) {
    return (
      <Textarea
        label={form.argv}
        description={form.argvHint}
        autosize
        minRows={1}
        maxRows={8}
        value={argv.map(String).join("\n")}
        onChange={(event) =>
          put(["spec", "run", "process", "argv"], event.currentTarget.value.split("\n"))
        }
      />
    );
  }
  return <TextField at={at} put={put} path={["spec", "run", "handler"]} word={form.handler} />;
}

function Parameters({ at, put }: Fields) {
  const { form } = useWords();
  const path = ["spec", "parameters"];
  const value = at(path);
  const [text, setText] = useState(value === undefined ? "" : stringify(value));
  const [bad, setBad] = useState(false);
  return (
    <Textarea
      mt="sm"
      label={form.parameters}
      autosize
      minRows={2}
      maxRows={12}
      value={text}
      error={bad ? form.parametersBad : undefined}
      styles={{ input: { fontFamily: "var(--mantine-font-family-monospace)" } }}
      onChange={(event) => {
        const typed = event.currentTarget.value;
        setText(typed);
        const parsed = mapIn(typed);
        setBad(parsed === null);
        if (parsed !== null) put(path, parsed);
      }}
    />
  );
}

/** The map in `text`, undefined if there is nothing, null if it is none. */
function mapIn(text: string): Record<string, unknown> | null | undefined {
  if (text.trim() === "") return undefined;
  try {
    const value: unknown = parse(text);
    const isMap = typeof value === "object" && value !== null && !Array.isArray(value);
    return isMap ? (value as Record<string, unknown>) : null;
  } catch {
    return null;
  }
}

function Schedules({
  text,
  change,
  schedules,
}: {
  text: string;
  change: (text: string) => void;
  schedules: Schedule[];
}) {
  const { form } = useWords();
  const remove = (index: number) =>
    change(withValue(text, schedules.length === 1 ? PATH : [...PATH, index], undefined));
  return (
    <Stack gap="xs">
      {schedules.length === 0 && <Alert color="gray">{form.onRequest}</Alert>}
      {schedules.map((one, index) => (
        <Group key={index} gap="xs" align="flex-end" wrap="nowrap">
          {one.way === null ? (
            <TextInput
              style={{ flex: 1 }}
              aria-label={form.schedule(index + 1)}
              readOnly
              variant="filled"
              value={form.asInYaml}
            />
          ) : (
            <>
              <Select
                w={150}
                aria-label={form.way(index + 1)}
                allowDeselect={false}
                value={one.way}
                onChange={(way) =>
                  change(
                    withSchedule(text, index, one.way as Way, {
                      way: way as Way,
                      value: EXAMPLES[way as Way],
                    }),
                  )
                }
                data={WAYS.map((way) => ({ value: way, label: form.ways[way] }))}
              />
              <TextInput
                style={{ flex: 1 }}
                aria-label={form.schedule(index + 1)}
                value={one.value}
                onChange={(event) =>
                  change(
                    withSchedule(text, index, one.way as Way, {
                      way: one.way,
                      value: event.currentTarget.value,
                    }),
                  )
                }
              />
            </>
          )}
          <Button
            variant="default"
            aria-label={form.dropSchedule(index + 1)}
            onClick={() => remove(index)}
          >
            –
          </Button>
        </Group>
      ))}
      <Group>
        <Button size="xs" variant="default" onClick={() => change(withMore(text))}>
          {form.addSchedule}
        </Button>
      </Group>
    </Stack>
  );
}

const PATH = ["spec", "schedules"];

/** What a schedule of another kind begins with. */
const EXAMPLES: Record<Way, string> = {
  cron: "0 3 * * *",
  every: "15m",
  at: "2027-01-01T00:00:00+08:00",
  after: "10m",
};

function Overlap({ at, put }: Fields) {
  const { form } = useWords();
  const path = ["spec", "overlap"];
  const queue = at([...path, "queue", "limit"]);
  if (typeof queue !== "number") {
    return <ChoiceField at={at} put={put} path={path} word={form.overlap} words={form.overlaps} />;
  }
  return (
    <NumberInput
      label={form.queueLimit}
      min={1}
      allowDecimal={false}
      value={queue}
      onChange={(next) => put(path, next === "" ? undefined : { queue: { limit: Number(next) } })}
    />
  );
}

/** How many shards, where they are cut by number; other ways are the text's. */
function Shards({ at, put }: Fields) {
  const { form } = useWords();
  const path = ["spec", "shards"];
  const value = at(path);
  const count = at([...path, "count"]);
  if (value != null && typeof count !== "number") {
    return <TextInput label={form.shards} readOnly variant="filled" value={form.asInYaml} />;
  }
  return (
    <NumberInput
      label={form.shards}
      placeholder="1"
      min={1}
      max={100_000}
      allowDecimal={false}
      value={typeof count === "number" ? count : ""}
      onChange={(next) => put(path, next === "" ? undefined : { count: Number(next) })}
    />
  );
}
