// Capacities: how much of each is held.
import { Progress, Table, Text } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import type { Capacity } from "../api/client";
import { query } from "../api/queries";
import { useWords } from "../i18n/words";
import { EVERYWHERE } from "../session/roles";
import { Instant } from "../time/zone";
import { Listing } from "../ui/listing";
import { MayLink } from "../ui/may";
import { Page, Rows, Section, To } from "../ui/parts";

export const capacityAddress = (name: string) => `/capacities/${encodeURIComponent(name)}`;

export default function Capacities() {
  const { capacities, words } = useWords();
  const asked = useInfiniteQuery(query.capacities());
  return (
    <Page
      title={capacities.title}
      aside={
        <MayLink needs="editor" namespace={EVERYWHERE} to="/jobs/new?kind=capacity" size="xs">
          {capacities.new}
        </MayLink>
      }
    >
      <Section title={capacities.title}>
        <Listing asked={asked} none={capacities.none}>
          {(items) => (
            <Rows
              label={capacities.title}
              heads={[
                words.name,
                capacities.units,
                capacities.holds,
                capacities.rate,
                capacities.tokens,
                capacities.version,
                capacities.changed,
              ]}
            >
              {items.map((capacity) => (
                <Table.Tr key={capacity.name}>
                  <Table.Td>
                    <To to={capacityAddress(capacity.name)}>{capacity.name}</To>
                  </Table.Td>
                  <Table.Td>
                    <Held capacity={capacity} />
                  </Table.Td>
                  <Table.Td>{words.number(capacity.holds)}</Table.Td>
                  <Table.Td>{capacity.rate ?? capacities.noLimit}</Table.Td>
                  <Table.Td>
                    {capacity.tokens == null
                      ? "–"
                      : capacities.of(capacity.tokens, capacity.burst ?? 0)}
                  </Table.Td>
                  <Table.Td>{capacity.version}</Table.Td>
                  <Table.Td>
                    <Instant at={capacity.changed_at} />
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

/** Units held of those that may be, as a bar and in words. */
export function Held({ capacity }: { capacity: Capacity }) {
  const { capacities, words } = useWords();
  const { used, units } = capacity;
  if (units == null) {
    return (
      <Text size="sm" span>
        {words.number(used)}{" "}
        <Text size="xs" c="dimmed" span>
          ({capacities.noLimit})
        </Text>
      </Text>
    );
  }
  return (
    <span className="bar-and-text">
      <Progress
        value={Math.min(100, (100 * used) / Math.max(1, units))}
        color={used > units ? "orange" : used === units ? "yellow" : undefined}
        w={80}
        aria-hidden
      />
      <Text size="sm" span style={{ whiteSpace: "nowrap" }}>
        {capacities.of(used, units)}
      </Text>
    </span>
  );
}
