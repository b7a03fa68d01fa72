// One capacity: who holds it and who waits for it; resized and deleted here.
import { Alert, NumberInput, SimpleGrid, Stack, Table, Text, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { useNavigate, useParams } from "react-router";
import { act } from "../api/actions";
import type { Capacity } from "../api/client";
import { query } from "../api/queries";
import { useWords } from "../i18n/words";
import { EVERYWHERE } from "../session/roles";
import { Instant } from "../time/zone";
import { Confirm, Effect } from "../ui/confirm";
import { Empty, Loaded } from "../ui/loaded";
import { MayButton, MayLink } from "../ui/may";
import { Fact, Facts, JobLink, Page, Rows, Section, To } from "../ui/parts";
import { capacityAddress, Held } from "./capacities";
import { yaml } from "./job_document";

/** The most holders and waiters that the server names. */
const MOST = 1_000;

export default function CapacityPage() {
  const { name = "" } = useParams();
  const asked = useQuery(query.capacity(name));
  return <Loaded asked={asked}>{(capacity) => <Found capacity={capacity} />}</Loaded>;
}

function Found({ capacity }: { capacity: Capacity }) {
  const { capacities, pause } = useWords();
  const navigate = useNavigate();
  const [asking, setAsking] = useState<"resize" | "remove" | null>(null);
  const close = () => setAsking(null);
  const { name, used, units } = capacity;
  return (
    <Page
      title={name}
      aside={
        <>
          <MayButton
            needs="operator"
            namespace={EVERYWHERE}
            size="xs"
            onClick={() => setAsking("resize")}
          >
            {capacities.resize}
          </MayButton>
          <MayLink
            needs="editor"
            namespace={EVERYWHERE}
            size="xs"
            variant="default"
            to={`${capacityAddress(name)}/edit`}
          >
            {capacities.edit}
          </MayLink>
          <MayButton
            needs="editor"
            namespace={EVERYWHERE}
            size="xs"
            variant="outline"
            color="red"
            onClick={() => setAsking("remove")}
          >
            {capacities.remove}
          </MayButton>
        </>
      }
    >
      <Text size="xs">
        <To to="/capacities">{capacities.title}</To>
      </Text>
      {units != null && used > units && (
        <Alert color="orange">{capacities.over(used, units)}</Alert>
      )}
      <Facts>
        <Fact word={capacities.units}>
          <Held capacity={capacity} />
        </Fact>
        <Fact word={capacities.holds}>{capacity.holds}</Fact>
        <Fact word={capacities.rate}>{capacity.rate ?? capacities.noLimit}</Fact>
        {capacity.tokens != null && (
          <Fact word={capacities.tokens}>
            {capacities.of(capacity.tokens, capacity.burst ?? 0)}
          </Fact>
        )}
        <Fact word={capacities.version}>{capacity.version}</Fact>
        <Fact word={capacities.changed}>
          <Instant at={capacity.changed_at} />
        </Fact>
      </Facts>
      <SimpleGrid cols={{ base: 1, lg: 2 }} style={{ alignItems: "start" }}>
        <Holders capacity={capacity} />
        <Stack style={{ minWidth: 0 }}>
          <Waiters capacity={capacity} />
          <Section title={capacities.document}>
            <pre className="output" tabIndex={0}>
              {yaml(capacity.document)}
            </pre>
          </Section>
        </Stack>
      </SimpleGrid>
      <Resize capacity={capacity} opened={asking === "resize"} close={close} />
      <Confirm
        opened={asking === "remove"}
        close={close}
        title={capacities.removeTitle(name)}
        type={{ text: name, ask: pause.type(name) }}
        go={capacities.removeGo}
        color="red"
        act={() => act.removeCapacity(name)}
        done={() => navigate("/capacities")}
      >
        <Effect>{capacities.removeEffect}</Effect>
      </Confirm>
    </Page>
  );
}

function Holders({ capacity }: { capacity: Capacity }) {
  const { capacities, words } = useWords();
  const workers = useQuery(query.workers());
  const holders = capacity.holders ?? [];
  const nameOf = (session: number) =>
    workers.data?.items.find((worker) => worker.session === session)?.name;
  return (
    <Section title={capacities.holders}>
      {holders.length === 0 ? (
        <Empty>{capacities.noHolders}</Empty>
      ) : (
        <Rows
          label={capacities.holders}
          heads={[capacities.shard, words.worker, capacities.units, capacities.since, ""]}
        >
          {holders.map((one) => (
            <Table.Tr key={`${one.run}/${one.shard} ${one.token}`}>
              <Table.Td>
                <To to={`/runs/${one.run}?shard=${one.shard}`}>
                  {one.run}/{one.shard}
                </To>
              </Table.Td>
              <Table.Td>{nameOf(one.session) ?? `${words.session} ${one.session}`}</Table.Td>
              <Table.Td>{words.number(one.units)}</Table.Td>
              <Table.Td>
                <Instant at={one.since} />
              </Table.Td>
              <Table.Td title={one.until ? capacities.untilHint : undefined}>
                {one.until && (
                  <Text size="xs" component="div">
                    {capacities.until} <Instant at={one.until} />
                  </Text>
                )}
              </Table.Td>
            </Table.Tr>
          ))}
        </Rows>
      )}
      {holders.length >= MOST && <Text size="xs">{capacities.first(MOST)}</Text>}
    </Section>
  );
}

function Waiters({ capacity }: { capacity: Capacity }) {
  const { capacities, words } = useWords();
  const waiters = capacity.waiters ?? [];
  return (
    <Section title={capacities.waiters}>
      {waiters.length === 0 ? (
        <Empty>{capacities.noWaiters}</Empty>
      ) : (
        <Rows
          label={capacities.waiters}
          heads={[words.run, words.job, words.pool, capacities.unitsEach, capacities.since]}
        >
          {waiters.map((one) => (
            <Table.Tr key={one.run}>
              <Table.Td>
                <To to={`/runs/${one.run}`}>#{one.run}</To>
              </Table.Td>
              <Table.Td>
                <JobLink job={one} />
              </Table.Td>
              <Table.Td>{one.pool}</Table.Td>
              <Table.Td>{words.number(one.units)}</Table.Td>
              <Table.Td>
                <Instant at={one.since} />
              </Table.Td>
            </Table.Tr>
          ))}
        </Rows>
      )}
      {waiters.length >= MOST && <Text size="xs">{capacities.first(MOST)}</Text>}
    </Section>
  );
}

function Resize({
  capacity,
  opened,
  close,
}: {
  capacity: Capacity;
  opened: boolean;
  close: () => void;
}) {
  const { capacities, pause } = useWords();
  const [units, setUnits] = useState<number | string>("");
  const [rate, setRate] = useState("");
  const [burst, setBurst] = useState<number | string>("");
  useEffect(() => {
    if (!opened) return;
    setUnits(capacity.units ?? "");
    setRate(capacity.rate ?? "");
    setBurst(capacity.burst ?? "");
  }, [opened]);
  // What is left as it is, or was never there, is not sent.
  const limits = {
    ...(units !== "" && Number(units) !== capacity.units ? { units: Number(units) } : {}),
    ...(rate.trim() !== "" && rate.trim() !== capacity.rate ? { rate: rate.trim() } : {}),
    ...(burst !== "" && Number(burst) !== capacity.burst ? { burst: Number(burst) } : {}),
  };
  return (
    <Confirm
      opened={opened}
      close={close}
      title={capacities.resizeTitle(capacity.name)}
      type={{ text: capacity.name, ask: pause.type(capacity.name) }}
      go={capacities.resizeGo}
      ready={Object.keys(limits).length > 0}
      act={() => act.resizeCapacity(capacity.name, limits)}
    >
      <Effect>{capacities.resizeEffect}</Effect>
      {capacity.units != null && (
        <NumberInput
          label={capacities.newUnits}
          min={0}
          allowDecimal={false}
          value={units}
          onChange={setUnits}
        />
      )}
      {units !== "" && capacity.used > Number(units) && (
        <Alert color="orange">{capacities.resizeOver(capacity.used, Number(units))}</Alert>
      )}
      {capacity.rate != null && (
        <>
          <TextInput
            label={capacities.newRate}
            description={capacities.rateHint}
            value={rate}
            onChange={(event) => setRate(event.currentTarget.value)}
          />
          <NumberInput
            label={capacities.burst}
            min={1}
            allowDecimal={false}
            value={burst}
            onChange={setBurst}
          />
        </>
      )}
    </Confirm>
  );
}
