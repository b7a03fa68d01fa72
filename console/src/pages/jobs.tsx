// All jobs.
import { Group, Select, TextInput } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useEffect, useMemo, useState } from "react";
import { Link, useNavigate, useSearchParams } from "react-router";
import type { Job } from "../api/client";
import { query, shownJob } from "../api/queries";
import { useWords } from "../i18n/words";
import { allows } from "../session/roles";
import { Instant } from "../time/zone";
import { itemsOf, Listing } from "../ui/listing";
import { LongRows } from "../ui/long_rows";
import { MayLink } from "../ui/may";
import { JobLink, jobAddress, Page, Section, To } from "../ui/parts";
import { State } from "../ui/state";

export default function Jobs() {
  const { jobs, words, importing } = useWords();
  const navigate = useNavigate();
  const [params, setParams] = useSearchParams();
  // Asked once for all rows: many are drawn in each frame while one scrolls.
  const me = useQuery(query.me()).data;
  const cells = useMemo(
    () => (job: Job) => (
      <JobCells
        job={job}
        mayRun={me === undefined || allows(me.roles, "operator", job.namespace)}
      />
    ),
    [me],
  );
  const search = params.get("search") ?? "";
  const state = params.get("state") ?? undefined;
  const [text, setText] = useState(search);
  const [settled] = useDebouncedValue(text, 250);
  useEffect(() => setText(search), [search]);
  useEffect(() => {
    if (settled === search) return;
    setParams(
      (old) => {
        const fresh = new URLSearchParams(old);
        if (settled === "") fresh.delete("search");
        else fresh.set("search", settled);
        fresh.delete("open");
        return fresh;
      },
      { replace: true },
    );
  }, [settled]);
  const wanted = query.jobs({ search: search || undefined, state });
  const asked = useInfiniteQuery(wanted);
  const items = itemsOf(asked);
  // A search from the box in the header that names one job goes straight to it.
  const exact = params.get("open") === "1" ? items.find((job) => job.name === search) : undefined;
  const found =
    exact ??
    (params.get("open") === "1" && items.length === 1 && !asked.hasNextPage ? items[0] : undefined);
  useEffect(() => {
    if (found) navigate(jobAddress(found), { replace: true });
  }, [found, navigate]);
  return (
    <Page
      title={jobs.title}
      aside={
        <>
          <MayLink needs="editor" to="/import" size="xs" variant="default">
            {importing.link}
          </MayLink>
          <MayLink needs="editor" to="/jobs/new" size="xs">
            {jobs.new}
          </MayLink>
        </>
      }
    >
      <Group align="flex-end">
        <TextInput
          size="xs"
          label={jobs.search}
          value={text}
          onChange={(event) => setText(event.currentTarget.value)}
        />
        <Select
          size="xs"
          w={200}
          label={words.state}
          placeholder={words.anyState}
          clearable
          value={state ?? null}
          onChange={(value) =>
            setParams((old) => {
              const fresh = new URLSearchParams(old);
              if (value) fresh.set("state", value);
              else fresh.delete("state");
              return fresh;
            })
          }
          data={(["live", "paused", "due", "late"] as const).map((value) => ({
            value,
            label: jobs.states[value],
          }))}
        />
      </Group>
      <Section title={jobs.title}>
        <Listing asked={asked} none={search || state ? jobs.noneFound : jobs.none} long>
          {() => (
            <LongRows
              label={jobs.title}
              columns={[
                { head: words.name, part: 190 },
                { head: words.state, part: 104 },
                { head: words.next, part: 220 },
                { head: words.active, part: 110 },
                { head: words.actions, part: 150 },
                { head: words.zone, part: 140 },
                { head: words.revision, part: 96 },
              ]}
              rows={items}
              keyOf={(job) => job.uid}
              row={cells}
              asked={asked}
              queryKey={wanted.queryKey}
              height={56}
            />
          )}
        </Listing>
      </Section>
    </Page>
  );
}

function JobCells({ job, mayRun }: { job: Job; mayRun: boolean }) {
  const { words, nav, job: ofJob } = useWords();
  const address = jobAddress(job);
  return (
    <>
      <td>
        <JobLink job={job} />
        {job.title && (
          <div className="dimmed small cut" title={job.title}>
            {job.title}
          </div>
        )}
      </td>
      <td>
        <State state={job.paused ? "paused" : "live"} />
      </td>
      <td>
        <Instant at={job.next_at ?? job.following_at} zone={job.time_zone} />
      </td>
      <td>
        <To to={`/runs?job=${encodeURIComponent(shownJob(job))}&state=running`}>
          {words.number(job.active_runs)}
        </To>
      </td>
      <td>
        <span className="row-links">
          <Does to={`/runs?job=${encodeURIComponent(shownJob(job))}`} word={nav.runs} job={job} />
          {mayRun && <Does to={`${address}?do=run`} word={ofJob.runNow} job={job} />}
        </span>
      </td>
      <td>{job.time_zone}</td>
      <td>{job.revision}</td>
    </>
  );
}

/** What can be done about one row, said with whose it is to those who hear the word alone. */
function Does({ to, word, job }: { to: string; word: string; job: Job }) {
  return (
    <Link to={to} className="plain-link" aria-label={`${word}: ${shownJob(job)}`}>
      {word}
    </Link>
  );
}
