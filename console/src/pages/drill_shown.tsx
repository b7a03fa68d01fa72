// One drill's record with its picture: the claim, the one changed condition, what was seen.
import { Alert, Code, Group, List, Stack, Table, Text } from "@mantine/core";
import { type ReactNode, useEffect, useState } from "react";
import { useWords } from "../i18n/words";
import { length } from "../time/instant";
import { Instant } from "../time/zone";
import { Copied, Fact, Facts, Rows, Section } from "../ui/parts";
import { Dot } from "../ui/state";
import {
  COUNTS,
  type Digest,
  type Drill,
  digestsOf,
  findingOf,
  pictureOf,
  SPREADS,
  verdictOf,
} from "./drill_record";
import { Verdict } from "./drills";

/** What is read of a drill's files once it is shown. */
function useRead<T>(drill: Drill, read: (drill: Drill) => Promise<T>): T | undefined {
  const [told, setTold] = useState<T>();
  useEffect(() => {
    let gone = false;
    void read(drill).then((value) => !gone && setTold(() => value));
    return () => {
      gone = true;
    };
  }, [drill]);
  return told;
}

export function Shown({ drill }: { drill: Drill }) {
  const { drills: words, words: common } = useWords();
  const { record } = drill;
  const seen = record.observed_result;
  return (
    <>
      <Section title={record.topic} aside={<Verdict word={seen.verdict} />}>
        <Stack gap="sm">
          <Text size="sm">{record.claim}</Text>
          {record.first_deviation && (
            <Alert color="red" title={words.deviation}>
              {record.first_deviation}
            </Alert>
          )}
          {seen.stopped && <Alert color="orange">{seen.stopped}</Alert>}
          <Facts>
            <Fact word={words.began}>
              <Instant at={record.execution.began} />
            </Fact>
            <Fact word={common.took}>{length(record.execution.took_ms, common.units)}</Fact>
            <Fact word={words.version}>{record.baseline_version}</Fact>
            <Fact word={words.owner}>{record.owner}</Fact>
            <Fact word={words.cluster}>{record.execution.cluster}</Fact>
          </Facts>
          <Facts>
            <Fact word={words.condition}>{record.condition}</Fact>
            {record.execution.faults.length > 0 && (
              <Fact word={words.faults}>
                <Lines lines={record.execution.faults} />
              </Fact>
            )}
          </Facts>
        </Stack>
      </Section>
      <Picture drill={drill} />
      <Findings drill={drill} />
      <Measured drill={drill} />
      <Files drill={drill} />
      <Section title={words.repeat}>
        <Stack gap="xs">
          <Command text={record.execution.command} word={words.command} />
          <Command text={record.recovery_replay} word={words.replay} />
          <Fact word={words.rollback}>{record.rollback}</Fact>
          <Fact word={words.notCovered}>
            <Lines lines={record.not_covered} />
          </Fact>
        </Stack>
      </Section>
    </>
  );
}

function Lines({ lines }: { lines: string[] }) {
  return (
    <List size="sm">
      {lines.map((line) => (
        <List.Item key={line}>{line}</List.Item>
      ))}
    </List>
  );
}

function Command({ text, word }: { text: string; word: string }) {
  return (
    <Fact word={word}>
      <Group gap={4} wrap="nowrap">
        <Code style={{ overflowWrap: "anywhere" }}>{text}</Code>
        <Copied text={text} word={word} />
      </Group>
    </Fact>
  );
}

function Picture({ drill }: { drill: Drill }) {
  const { drills: words } = useWords();
  const picture = useRead(drill, pictureOf);
  return (
    <Section title={words.picture}>
      {picture === null && (
        <Text size="sm" c="dimmed">
          {words.noPicture}
        </Text>
      )}
      {picture && (
        <>
          <div className="picture" tabIndex={0} role="region" aria-label={words.picture}>
            <img src={picture} alt={`${words.picture}: ${drill.record.topic}`} />
          </div>
          <Text size="xs" c="dimmed" mt={4}>
            {words.pictureHint}
          </Text>
        </>
      )}
    </Section>
  );
}

function Findings({ drill }: { drill: Drill }) {
  const { drills: words } = useWords();
  const { findings, checksum_after, checksum_expected } = drill.record.observed_result;
  const verdict = useRead(drill, verdictOf);
  return (
    <Section title={words.findings}>
      <Rows label={words.findings} heads={["", words.hadTo, words.seen]} minWidth={620}>
        {findings.map((text) => {
          const { isOk, claim, seen } = findingOf(text, drill.record.pass_when);
          return (
            <Table.Tr key={text}>
              <Table.Td>
                <Dot color={isOk ? "teal" : "red"}>{isOk ? words.holds : words.holdsNot}</Dot>
              </Table.Td>
              <Table.Td>{claim}</Table.Td>
              <Table.Td style={{ overflowWrap: "anywhere" }}>{seen}</Table.Td>
            </Table.Tr>
          );
        })}
      </Rows>
      <Stack gap={2} mt="sm">
        {checksum_expected !== "" && (
          <Text size="sm" c={checksum_after === checksum_expected ? undefined : "red"}>
            {checksum_after === checksum_expected ? words.sumsSame : words.sumsDiffer}{" "}
            <Code>{checksum_after.slice(0, 12)}</Code>{" "}
            {checksum_after !== checksum_expected && <Code>{checksum_expected.slice(0, 12)}</Code>}
          </Text>
        )}
        {verdict && (
          <Text size="sm">
            {words.checker} <Code>{verdict.outcome}</Code>
          </Text>
        )}
        {verdict && verdict.broken.length > 0 && <Lines lines={verdict.broken} />}
      </Stack>
    </Section>
  );
}

const cell = (value: ReactNode) => (
  <Table.Td style={{ fontVariantNumeric: "tabular-nums" }}>{value}</Table.Td>
);

function Measured({ drill }: { drill: Drill }) {
  const { drills: words, words: common } = useWords();
  const { measures } = drill.record.observed_result;
  return (
    <Section title={words.measures}>
      <Rows label={words.measures} heads={["", words.howMany, "50 %", "99 %", words.longest]}>
        {SPREADS.map((name) => {
          const spread = measures[name];
          const ms = (value: number) => (spread.count === 0 ? "–" : length(value, common.units));
          return (
            <Table.Tr key={name}>
              <Table.Td>{words.measure[name]}</Table.Td>
              {cell(common.number(spread.count))}
              {cell(ms(spread.p50_ms))}
              {cell(ms(spread.p99_ms))}
              {cell(ms(spread.max_ms))}
            </Table.Tr>
          );
        })}
      </Rows>
      <Group gap="xl" mt="xs">
        {COUNTS.map((name) => (
          <Fact key={name} word={words.measure[name]}>
            {common.number(measures[name])}
          </Fact>
        ))}
      </Group>
    </Section>
  );
}

const DIGEST_COLORS: Record<Digest, string> = {
  same: "teal",
  other: "red",
  missing: "red",
  unknown: "gray",
  "too-large": "gray",
};

function Files({ drill }: { drill: Drill }) {
  const { drills: words, state } = useWords();
  const digests = useRead(drill, digestsOf);
  const names = Object.keys(drill.record.evidence).sort();
  return (
    <Section title={words.files}>
      <Rows label={words.files} heads={[words.file, words.digest, "SHA-256"]}>
        {names.map((name) => {
          const told = digests?.get(name);
          return (
            <Table.Tr key={name} data-file={name} data-digest={told}>
              <Table.Td>{name}</Table.Td>
              <Table.Td>
                {told === undefined ? (
                  state.loading
                ) : (
                  <Dot color={DIGEST_COLORS[told]}>{words.digests[told]}</Dot>
                )}
              </Table.Td>
              <Table.Td>
                <Code>{String(drill.record.evidence[name]).slice(0, 16)}…</Code>
              </Table.Td>
            </Table.Tr>
          );
        })}
      </Rows>
      <Text size="xs" c="dimmed" mt={4}>
        {words.filesHint}
      </Text>
    </Section>
  );
}
