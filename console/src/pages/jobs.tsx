// All jobs.
import { Badge, Group, Select, Table, Text, TextInput } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { useNavigate, useSearchParams } from "react-router";
import { query } from "../api/queries";
import { useWords } from "../i18n/words";
import { Instant } from "../time/zone";
import { itemsOf, Listing } from "../ui/listing";
import { MayLink } from "../ui/may";
import { JobLink, jobAddress, Page, Rows, Section } from "../ui/parts";
import { State } from "../ui/state";

export default function Jobs() {
  const { jobs, words } = useWords();
  const navigate = useNavigate();
  const [params, setParams] = useSearchParams();
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
  const asked = useInfiniteQuery(query.jobs({ search: search || undefined, state }));
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
        <MayLink needs="editor" to="/jobs/new" size="xs">
          {jobs.new}
        </MayLink>
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
        <Listing asked={asked} none={search || state ? jobs.noneFound : jobs.none}>
          {() => (
            <Rows
              label={jobs.title}
              heads={[
                words.name,
                words.state,
                words.next,
                words.active,
                words.zone,
                words.revision,
              ]}
            >
              {items.map((job) => (
                <Table.Tr key={job.uid}>
                  <Table.Td>
                    <JobLink job={job} />
                    {job.title && (
                      <Text size="xs" c="dimmed">
                        {job.title}
                      </Text>
                    )}
                  </Table.Td>
                  <Table.Td>
                    <State state={job.paused ? "paused" : "live"} />
                  </Table.Td>
                  <Table.Td>
                    <Instant at={job.next_at ?? job.following_at} zone={job.time_zone} />
                  </Table.Td>
                  <Table.Td>
                    {job.active_runs > 0 ? (
                      <Badge variant="light" radius="sm">
                        {words.number(job.active_runs)}
                      </Badge>
                    ) : (
                      <Text size="sm" c="dimmed" span>
                        0
                      </Text>
                    )}
                  </Table.Td>
                  <Table.Td>{job.time_zone}</Table.Td>
                  <Table.Td>{job.revision}</Table.Td>
                </Table.Tr>
              ))}
            </Rows>
          )}
        </Listing>
      </Section>
    </Page>
  );
}
