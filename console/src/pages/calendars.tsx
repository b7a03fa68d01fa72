// Calendars, and one of them with the jobs that go by it.
import { Group, List, SimpleGrid, Stack, Table, Text } from "@mantine/core";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useParams } from "react-router";
import { query, shownJob } from "../api/queries";
import { useWords } from "../i18n/words";
import { Instant } from "../time/zone";
import { Listing } from "../ui/listing";
import { Empty, Loaded } from "../ui/loaded";
import { MayLink } from "../ui/may";
import { JobLink, Page, Rows, Section, To } from "../ui/parts";
import { yaml } from "./job_document";

export default function Calendars() {
  const { namespace, name } = useParams();
  if (namespace !== undefined && name !== undefined) {
    return <One namespace={namespace} name={name} />;
  }
  return <All />;
}

function All() {
  const { calendars, words } = useWords();
  const asked = useInfiniteQuery(query.calendars());
  return (
    <Page
      title={calendars.title}
      aside={
        <MayLink needs="editor" to="/jobs/new" size="xs">
          {calendars.new}
        </MayLink>
      }
    >
      <Section title={calendars.title}>
        <Listing asked={asked} none={calendars.none}>
          {(items) => (
            <Rows
              label={calendars.title}
              heads={[words.name, calendars.version, calendars.changed]}
            >
              {items.map((calendar) => (
                <Table.Tr key={shownJob(calendar)}>
                  <Table.Td>
                    <To to={`/calendars/${calendar.namespace}/${calendar.name}`}>
                      {shownJob(calendar)}
                    </To>
                  </Table.Td>
                  <Table.Td>{calendar.version}</Table.Td>
                  <Table.Td>
                    <Instant at={calendar.changed_at} />
                  </Table.Td>
                </Table.Tr>
              ))}
            </Rows>
          )}
        </Listing>
      </Section>
    </Page>
  );
}

function One({ namespace, name }: { namespace: string; name: string }) {
  const { calendars } = useWords();
  const asked = useQuery(query.calendar({ namespace, name }));
  return (
    <Page title={shownJob({ namespace, name })}>
      <Text size="xs">
        <To to="/calendars">{calendars.title}</To>
      </Text>
      <Loaded asked={asked}>
        {(calendar) => (
          <SimpleGrid cols={{ base: 1, md: 2 }} style={{ alignItems: "start" }}>
            <Stack>
              <Section title={calendars.document}>
                <pre className="output" tabIndex={0}>
                  {yaml(calendar.document)}
                </pre>
              </Section>
            </Stack>
            <Stack>
              <Section title={calendars.version}>
                <Group>
                  <Text size="sm">{calendar.version}</Text>
                  <Instant at={calendar.changed_at} />
                </Group>
              </Section>
              <Section title={calendars.users}>
                {(calendar.users ?? []).length === 0 ? (
                  <Empty>{calendars.noUsers}</Empty>
                ) : (
                  <List size="sm" listStyleType="none">
                    {(calendar.users ?? []).map((user) => (
                      <List.Item key={shownJob(user)}>
                        <JobLink job={user} />{" "}
                        <Text span size="xs" c="dimmed">
                          {calendars.version} {user.version}
                        </Text>
                      </List.Item>
                    ))}
                  </List>
                )}
              </Section>
            </Stack>
          </SimpleGrid>
        )}
      </Loaded>
    </Page>
  );
}
