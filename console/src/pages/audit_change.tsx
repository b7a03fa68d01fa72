// One change: who asked for it, and what was before it and after.
//
// Invariants: what was before is read, never guessed: the revision or version before, or the change
// before of the same object. Where none is found it is said.
import { Code, Drawer, Group, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import type { ChangeMade } from "../api/client";
import { type JobName, query } from "../api/queries";
import { useWords } from "../i18n/words";
import { Instant } from "../time/zone";
import { Diff } from "../ui/diff";
import { Loaded } from "../ui/loaded";
import { Fact, Facts, Section } from "../ui/parts";
import { instantOf, Of } from "./audit_changes";
import { yaml } from "./job_document";

export function ChangeDrawer({ seq, close }: { seq: number | null; close: () => void }) {
  const { audit, state } = useWords();
  return (
    <Drawer
      opened={seq !== null}
      onClose={close}
      position="right"
      size="xl"
      title={audit.change(seq ?? 0)}
      closeButtonProps={{ "aria-label": state.close }}
    >
      {seq !== null && <Asked seq={seq} />}
    </Drawer>
  );
}

function Asked({ seq }: { seq: number }) {
  const { audit } = useWords();
  const asked = useQuery(query.change(seq));
  return (
    <Loaded asked={asked}>
      {(change) =>
        change === null ? <Text size="sm">{audit.noChange}</Text> : <Shown change={change} />
      }
    </Loaded>
  );
}

function Shown({ change }: { change: ChangeMade }) {
  const { audit } = useWords();
  const { event } = change;
  return (
    <Stack>
      <Facts>
        <Fact word={audit.did}>
          {(audit.events as Record<string, string>)[event.kind] ?? event.kind}{" "}
          <Code>{event.kind}</Code>
        </Fact>
        <Fact word={audit.object}>
          <Of change={change} />
        </Fact>
        <Fact word={audit.who}>{event.actor}</Fact>
        <Fact word={audit.when}>
          <Instant at={event.at} />
        </Fact>
        {event.from !== event.to && (
          <Fact word={audit.states}>
            <Group gap={4}>
              <Code>{event.from || "–"}</Code> → <Code>{event.to || "–"}</Code>
            </Group>
          </Fact>
        )}
        {event.cause !== "" && <Fact word={audit.cause}>{event.cause}</Fact>}
        <Fact word={audit.operation}>
          <Code>{event.op}</Code>
        </Fact>
      </Facts>
      <Section title={audit.beforeAfter}>
        <Difference change={change} />
      </Section>
    </Stack>
  );
}

function Difference({ change }: { change: ChangeMade }) {
  const { event, namespace, job } = change;
  const data = event.data as Record<string, unknown>;
  const [of, name] = event.id.split("/");
  if (event.kind === "job_applied" && namespace != null && job != null) {
    return <OfRevision job={{ namespace, name: job }} revision={Number(data.revision)} />;
  }
  if (event.kind === "calendar_applied" && of && name) {
    return <OfVersion calendar={{ namespace: of, name }} version={Number(data.version)} />;
  }
  return <OfData change={change} />;
}

function OfRevision({ job, revision }: { job: JobName; revision: number }) {
  const { words } = useWords();
  const after = useQuery(query.revision(job, revision));
  const before = useQuery({ ...query.revision(job, revision - 1), enabled: revision > 1 });
  return (
    <Loaded asked={after}>
      {(found) =>
        revision > 1 ? (
          <Loaded asked={before}>
            {(old) => (
              <Named before={`${words.revision} ${revision - 1}`} after={`${revision}`}>
                <Diff before={yaml(old.document)} after={yaml(found.document)} />
              </Named>
            )}
          </Loaded>
        ) : (
          <New text={yaml(found.document)} />
        )
      }
    </Loaded>
  );
}

function OfVersion({ calendar, version }: { calendar: JobName; version: number }) {
  const { calendars } = useWords();
  const after = useQuery(query.calendar(calendar, version));
  const before = useQuery({ ...query.calendar(calendar, version - 1), enabled: version > 1 });
  return (
    <Loaded asked={after}>
      {(found) =>
        version > 1 ? (
          <Loaded asked={before}>
            {(old) => (
              <Named before={`${calendars.version} ${version - 1}`} after={`${version}`}>
                <Diff before={yaml(old.document)} after={yaml(found.document)} />
              </Named>
            )}
          </Loaded>
        ) : (
          <New text={yaml(found.document)} />
        )
      }
    </Loaded>
  );
}

/** Kinds whose events have all that is set, so that the one before is what was before. */
const WHOLE = new Set(["capacity_applied", "namespace_set"]);

function OfData({ change: { event } }: { change: ChangeMade }) {
  const { audit } = useWords();
  const isWhole = WHOLE.has(event.kind);
  const before = useQuery({ ...query.changeBefore(event), enabled: isWhole });
  const after = said(event);
  if (!isWhole) {
    return after === "" ? (
      <Text size="sm" c="dimmed">
        {audit.stateOnly}
      </Text>
    ) : (
      <pre className="output">{after}</pre>
    );
  }
  return (
    <Loaded asked={before}>
      {(old) =>
        old === null ? (
          <New text={after} />
        ) : (
          <Named before={audit.changeOf(old.event.seq)} after={audit.changeOf(event.seq)}>
            <Diff before={said(old.event)} after={after} />
          </Named>
        )
      }
    </Loaded>
  );
}

/** An event's data as people read it. */
function said(event: ChangeMade["event"]): string {
  const data = Object.entries(event.data as Record<string, unknown>).map(([key, value]) => {
    const isInstant = typeof value === "number" && /_at$|^(from|to|high_water)$/.test(key);
    return [key, isInstant ? instantOf(value) : value];
  });
  return data.length === 0 ? "" : yaml(Object.fromEntries(data));
}

function New({ text }: { text: string }) {
  const { audit } = useWords();
  return (
    <Stack gap={4}>
      <Text size="xs" c="dimmed">
        {audit.noBefore}
      </Text>
      <pre className="output" tabIndex={0} role="region" aria-label={audit.beforeAfter}>
        {text}
      </pre>
    </Stack>
  );
}

function Named({
  before,
  after,
  children,
}: {
  before: string;
  after: string;
  children: ReactNode;
}) {
  return (
    <Stack gap={4}>
      <Text size="xs" c="dimmed">
        {before} → {after}
      </Text>
      {children}
    </Stack>
  );
}
