// What namespaces may have of the pools: weights and limits.
import { Checkbox, NumberInput, Progress, Table, Text, TextInput } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { act } from "../api/actions";
import type { Namespace } from "../api/client";
import { query } from "../api/queries";
import { useWords } from "../i18n/words";
import { EVERYWHERE } from "../session/roles";
import { Confirm, Effect } from "../ui/confirm";
import { Listing } from "../ui/listing";
import { MayButton } from "../ui/may";
import { Page, Rows, Section, To } from "../ui/parts";

/** The weight of a namespace of which nothing was set. */
const USUAL_WEIGHT = 100;

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
                <span key="share" title={namespaces.shareHint}>
                  {namespaces.share}
                </span>,
                namespaces.running,
                namespaces.limit,
                words.actions,
              ]}
            >
              {items.map((one) => (
                <One
                  key={one.name}
                  one={one}
                  all={items.reduce((sum, { weight }) => sum + weight, 0)}
                  set={() => setWanted({ namespace: one })}
                />
              ))}
            </Rows>
          )}
        </Listing>
      </Section>
      <Text size="sm" c="dimmed">
        {namespaces.others}
      </Text>
      <SetOne wanted={wanted} close={() => setWanted(null)} />
    </Page>
  );
}

function One({ one, all, set }: { one: Namespace; all: number; set: () => void }) {
  const { namespaces, words } = useWords();
  const share = (100 * one.weight) / Math.max(1, all);
  return (
    <Table.Tr>
      <Table.Td>
        <To to={`/jobs?search=${encodeURIComponent(`${one.name}/`)}`}>{one.name}</To>
      </Table.Td>
      <Table.Td>{words.number(one.weight)}</Table.Td>
      <Table.Td>
        <span className="bar-and-text">
          <Progress value={share} w={80} aria-hidden />
          <Text size="sm" span>
            {share.toFixed(share < 10 ? 1 : 0)} %
          </Text>
        </span>
      </Table.Td>
      <Table.Td>
        {one.running == null ? (
          <Text size="sm" c="dimmed" span>
            {namespaces.notCounted}
          </Text>
        ) : (
          words.number(one.running)
        )}
      </Table.Td>
      <Table.Td>
        {one.max_running == null ? namespaces.noLimit : words.number(one.max_running)}
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
