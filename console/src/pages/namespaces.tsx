// What namespaces may have of the pools, weights and limits, and what they have now.
import { Checkbox, NumberInput, Progress, Table, Text, TextInput } from "@mantine/core";
import { useInfiniteQuery, useQueries, useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { act } from "../api/actions";
import type { Namespace } from "../api/client";
import { query } from "../api/queries";
import { useWords } from "../i18n/words";
import { EVERYWHERE } from "../session/roles";
import { Confirm, Effect } from "../ui/confirm";
import { itemsOf, Listing } from "../ui/listing";
import { Empty, Loaded } from "../ui/loaded";
import { MayButton } from "../ui/may";
import { Page, Rows, Section, To } from "../ui/parts";
import { shares, USUAL_WEIGHT } from "./shares";

/** The most workers whose shards are counted. */
const MOST_WORKERS = 100;

/** A namespace that is to be set; one without a name is to be named. */
interface Wanted {
  namespace: Partial<Namespace>;
}

export default function Namespaces() {
  const { namespaces, words } = useWords();
  const asked = useInfiniteQuery(query.namespaces());
  const [wanted, setWanted] = useState<Wanted | null>(null);
  return (
    <Page
      title={namespaces.title}
      aside={
        <MayButton
          needs="admin"
          namespace={EVERYWHERE}
          size="xs"
          onClick={() => setWanted({ namespace: {} })}
        >
          {namespaces.setOther}
        </MayButton>
      }
    >
      <Section title={namespaces.title}>
        <Listing asked={asked} none={namespaces.none}>
          {(items) => (
            <Rows
              label={namespaces.title}
              heads={[
                words.name,
                namespaces.weight,
                namespaces.limit,
                namespaces.running,
                words.actions,
              ]}
            >
              {items.map((one) => (
                <One key={one.name} one={one} set={() => setWanted({ namespace: one })} />
              ))}
            </Rows>
          )}
        </Listing>
      </Section>
      <Shares set={itemsOf(asked)} />
      <Text size="sm" c="dimmed">
        {namespaces.others}
      </Text>
      <SetOne wanted={wanted} close={() => setWanted(null)} />
    </Page>
  );
}

function One({ one, set }: { one: Namespace; set: () => void }) {
  const { namespaces, words } = useWords();
  return (
    <Table.Tr>
      <Table.Td>
        <To to={`/jobs?search=${encodeURIComponent(`${one.name}/`)}`}>{one.name}</To>
      </Table.Td>
      <Table.Td>{words.number(one.weight)}</Table.Td>
      <Table.Td>
        {one.max_running == null ? namespaces.noLimit : words.number(one.max_running)}
      </Table.Td>
      <Table.Td>
        {one.running == null ? (
          <span className="dimmed">{namespaces.notCounted}</span>
        ) : (
          words.number(one.running)
        )}
      </Table.Td>
      <Table.Td>
        <MayButton
          needs="admin"
          namespace={EVERYWHERE}
          size="compact-xs"
          variant="default"
          aria-label={`${namespaces.set}: ${one.name}`}
          onClick={set}
        >
          {namespaces.set}
        </MayButton>
      </Table.Td>
    </Table.Tr>
  );
}

/** What each has of all that runs now, beside what its weight gives it among those that run something. */
function Shares({ set }: { set: Namespace[] }) {
  const { namespaces, words } = useWords();
  const workers = useQuery(query.workers());
  const busy = (workers.data?.items ?? []).filter(({ held }) => held > 0);
  const asked = useQueries({
    queries: busy.slice(0, MOST_WORKERS).map(({ session }) => query.work(session)),
  });
  const held = asked.flatMap(({ data }) => data?.items ?? []);
  const found = shares(set, held).filter(({ running }) => running > 0);
  return (
    <Section title={namespaces.shares}>
      <Loaded asked={workers}>
        {() =>
          found.length === 0 ? (
            <Empty>{namespaces.noShares}</Empty>
          ) : (
            <Rows
              label={namespaces.shares}
              heads={[
                words.name,
                namespaces.running,
                namespaces.now,
                namespaces.weight,
                namespaces.share,
              ]}
            >
              {found.map((one) => (
                <Table.Tr key={one.name}>
                  <Table.Td>{one.name}</Table.Td>
                  <Table.Td>{words.number(one.running)}</Table.Td>
                  <Table.Td>
                    <Part of={one.now} color="teal" />
                  </Table.Td>
                  <Table.Td>{words.number(one.weight)}</Table.Td>
                  <Table.Td>{one.due !== null && <Part of={one.due} />}</Table.Td>
                </Table.Tr>
              ))}
            </Rows>
          )
        }
      </Loaded>
      {busy.length > MOST_WORKERS && (
        <Text size="xs" c="dimmed">
          {namespaces.someWorkers(MOST_WORKERS)}
        </Text>
      )}
    </Section>
  );
}

function Part({ of, color }: { of: number; color?: string }) {
  const percent = 100 * of;
  return (
    <span className="bar-and-text">
      <Progress value={percent} color={color} w={100} aria-hidden />
      {percent.toFixed(percent < 10 ? 1 : 0)} %
    </span>
  );
}

function SetOne({ wanted, close }: { wanted: Wanted | null; close: () => void }) {
  const { namespaces, pause } = useWords();
  const [name, setName] = useState("");
  const [weight, setWeight] = useState<number | string>(USUAL_WEIGHT);
  const [unlimited, setUnlimited] = useState(true);
  const [limit, setLimit] = useState<number | string>("");
  useEffect(() => {
    if (wanted === null) return;
    const { namespace } = wanted;
    setName(namespace.name ?? "");
    setWeight(namespace.weight ?? USUAL_WEIGHT);
    setUnlimited(namespace.max_running == null);
    setLimit(namespace.max_running ?? "");
  }, [wanted]);
  const named = name.trim();
  const most = unlimited || limit === "" ? null : Number(limit);
  const ready = named !== "" && weight !== "" && (unlimited || limit !== "");
  return (
    <Confirm
      opened={wanted !== null}
      close={close}
      title={namespaces.setTitle}
      type={named === "" ? undefined : { text: named, ask: pause.type(named) }}
      go={namespaces.go}
      ready={ready}
      act={() =>
        act.setNamespace(named, {
          weight: Number(weight),
          ...(most === null ? { unlimited: true } : { max_running: most, unlimited: false }),
        })
      }
    >
      <TextInput
        label={namespaces.name}
        value={name}
        readOnly={wanted?.namespace.name !== undefined}
        onChange={(event) => setName(event.currentTarget.value)}
        required
      />
      <NumberInput
        label={namespaces.weight}
        description={namespaces.weightHint}
        min={1}
        max={10_000}
        allowDecimal={false}
        value={weight}
        onChange={setWeight}
      />
      <Checkbox
        label={namespaces.unlimited}
        checked={unlimited}
        onChange={(event) => setUnlimited(event.currentTarget.checked)}
      />
      {!unlimited && (
        <NumberInput
          label={namespaces.limit}
          min={0}
          allowDecimal={false}
          value={limit}
          onChange={setLimit}
        />
      )}
      {ready && <Effect>{namespaces.effect(named, Number(weight), most)}</Effect>}
    </Confirm>
  );
}
