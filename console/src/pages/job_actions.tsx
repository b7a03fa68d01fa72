// Running a job now, pausing and resuming it.
import { Alert, Checkbox, List, Stack, Text, Textarea, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { useNavigate } from "react-router";
import { act } from "../api/actions";
import type { Job } from "../api/client";
import { query, shownJob } from "../api/queries";
import { useWords } from "../i18n/words";
import { useInstant } from "../time/zone";
import { Confirm, Effect } from "../ui/confirm";
import { Loaded } from "../ui/loaded";

interface Asking {
  job: Job;
  opened: boolean;
  close: () => void;
}

/**
 * A key that nobody has used: the time to the second and some chance. Not `crypto.randomUUID`, which
 * browsers lack on a page that came neither by TLS nor from this machine.
 */
export function freshKey(): string {
  const now = new Date().toISOString().slice(0, 19).replaceAll(":", "").replace("T", "-");
  return `console-${now}-${crypto.getRandomValues(new Uint32Array(1))[0]?.toString(36)}`;
}

/** The object in `text`, nothing if it is empty, or null if it is none. */
function objectIn(text: string): Record<string, never> | null | undefined {
  if (text.trim() === "") return undefined;
  try {
    const value: unknown = JSON.parse(text);
    const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
    return isObject ? (value as Record<string, never>) : null;
  } catch {
    return null;
  }
}

export function RunNow({ job, opened, close }: Asking) {
  const { runNow } = useWords();
  const navigate = useNavigate();
  const [key, setKey] = useState("");
  const [planned, setPlanned] = useState("");
  const [parameters, setParameters] = useState("");
  useEffect(() => {
    if (opened) setKey(freshKey());
  }, [opened]);
  const given = objectIn(parameters);
  const identity = planned.trim() === "" ? { key: key.trim() } : { planned_at: planned.trim() };
  return (
    <Confirm
      opened={opened}
      close={close}
      title={runNow.title(shownJob(job))}
      go={runNow.go}
      ready={given !== null && (planned.trim() !== "" || key.trim() !== "")}
      act={async () => {
        const started = await act.start(job, {
          ...identity,
          ...(given ? { parameters: given } : {}),
        });
        navigate(`/runs/${started.id}`);
      }}
    >
      <Effect>{runNow.effect}</Effect>
      <TextInput
        label={runNow.key}
        description={runNow.keyHint}
        value={key}
        onChange={(event) => setKey(event.currentTarget.value)}
        disabled={planned.trim() !== ""}
      />
      <TextInput
        label={runNow.planned}
        description={runNow.plannedHint}
        placeholder="2026-08-30T00:00:00+08:00"
        value={planned}
        onChange={(event) => setPlanned(event.currentTarget.value)}
      />
      <Textarea
        label={runNow.parameters}
        autosize
        minRows={2}
        maxRows={10}
        value={parameters}
        error={given === null ? runNow.parametersBad : undefined}
        onChange={(event) => setParameters(event.currentTarget.value)}
        styles={{ input: { fontFamily: "var(--mantine-font-family-monospace)" } }}
      />
    </Confirm>
  );
}

export function PauseOrResume({ job, opened, close }: Asking) {
  const { pause } = useWords();
  const [catchUp, setCatchUp] = useState(false);
  const shown = shownJob(job);
  const resuming = job.paused;
  return (
    <Confirm
      opened={opened}
      close={close}
      title={resuming ? pause.resumeTitle(shown) : pause.title(shown)}
      type={resuming ? undefined : { text: job.name, ask: pause.type(job.name) }}
      go={resuming ? pause.resumeGo : pause.go}
      color={resuming ? undefined : "orange"}
      act={() => (resuming ? act.resume(job, catchUp) : act.pause(job))}
    >
      {resuming && (
        <Checkbox
          label={pause.catchUp}
          checked={catchUp}
          onChange={(event) => setCatchUp(event.currentTarget.checked)}
        />
      )}
      <WhatHappens job={job} catchUp={resuming && catchUp} />
    </Confirm>
  );
}

/** The server's own preview of it: nothing is guessed here. */
function WhatHappens({ job, catchUp }: { job: Job; catchUp: boolean }) {
  const { pause } = useWords();
  const instant = useInstant();
  const asked = useQuery(query.preview(job, catchUp));
  return (
    <Loaded asked={asked}>
      {(preview) => (
        <Stack gap="xs">
          {job.paused ? (
            <>
              <Effect>{pause.resumeEffect(preview.run_count, preview.skip_count)}</Effect>
              <List size="sm">
                {preview.runs.slice(0, 5).map((at) => (
                  <List.Item key={at}>{instant(at, job.time_zone)}</List.Item>
                ))}
              </List>
              {preview.next_at && (
                <Text size="sm">{pause.nextRun(instant(preview.next_at, job.time_zone))}</Text>
              )}
            </>
          ) : (
            <>
              <Effect>{pause.effect}</Effect>
              {(preview.run_count > 0 || preview.skip_count > 0) && (
                <Effect>{pause.undecided(preview.run_count, preview.skip_count)}</Effect>
              )}
              {job.next_at && (
                <Alert color="orange">{pause.nextLost(instant(job.next_at, job.time_zone))}</Alert>
              )}
            </>
          )}
        </Stack>
      )}
    </Loaded>
  );
}
