// Evidence of drills, opened from this machine: what was changed, what had to hold, what was seen.
//
// Not here: running drills (`sichen drill run`). No server keeps evidence, so there is nothing to ask.
import { Alert, Code, Group, List, Stack, Table, Text } from "@mantine/core";
import { useState } from "react";
import { useWords } from "../i18n/words";
import { length } from "../time/instant";
import { Instant } from "../time/zone";
import { Page, Rows, Section } from "../ui/parts";
import { Dot } from "../ui/state";
import { Compared } from "./drill_compare";
import { OpenFolder } from "./drill_open";
import { type Drill, drillsOf, type Found, type Unread } from "./drill_record";
import { Shown } from "./drill_shown";

const COLORS: Record<string, string> = {
  passed: "teal",
  failed: "red",
  stopped: "orange",
  unfinished: "orange",
};

export function Verdict({ word }: { word: string }) {
  const { drills } = useWords();
  return (
    <Dot color={COLORS[word] ?? "gray"}>
      {(drills.verdicts as Record<string, string>)[word] ?? word}
    </Dot>
  );
}

export default function Drills() {
  const { drills: words } = useWords();
  const [drills, setDrills] = useState<Drill[]>([]);
  const [unread, setUnread] = useState<Unread[]>([]);
  const [chosen, setChosen] = useState<string | null>(null);
  const [nothing, setNothing] = useState(false);
  const opened = async (found: Found[]) => {
    if (found.length === 0) return;
    const read = await drillsOf(found);
    const fresh = new Set(read.drills.map(({ folder }) => folder));
    setDrills((old) => [...old.filter(({ folder }) => !fresh.has(folder)), ...read.drills]);
    setUnread(read.unread);
    setNothing(read.drills.length + read.unread.length === 0);
    setChosen(read.drills[0]?.folder ?? chosen);
  };
  const shown = drills.find(({ folder }) => folder === chosen);
  return (
    <Page title={words.title}>
      <Text size="sm" c="dimmed">
        {words.hint}
      </Text>
      <OpenFolder opened={(found) => void opened(found)} />
      {nothing && (
        <Alert color="orange" role="alert">
          {words.noRecord}
        </Alert>
      )}
      {unread.map(({ folder, why }) => (
        <Alert key={folder} color="red" role="alert">
          {words.unread(folder)} <Code>{why}</Code>
        </Alert>
      ))}
      {drills.length === 0 ? (
        <How />
      ) : (
        <Stack>
          <Opened drills={drills} chosen={chosen} choose={setChosen} />
          {shown && <Shown key={shown.folder} drill={shown} />}
          {drills.length > 1 && <Compared drills={drills} />}
        </Stack>
      )}
    </Page>
  );
}

function How() {
  const { drills } = useWords();
  return (
    <Section title={drills.how}>
      <List size="sm" spacing={6}>
        <List.Item>
          {drills.howRun} <Code>sichen drill run kill-worker --evidence DIR</Code>
        </List.Item>
        <List.Item>
          {drills.howFour} <Code>sichen drill run kill-worker --batch --evidence DIR</Code>
        </List.Item>
        <List.Item>
          {drills.howList} <Code>sichen drill list</Code>
        </List.Item>
      </List>
    </Section>
  );
}

function Opened({
  drills,
  chosen,
  choose,
}: {
  drills: Drill[];
  chosen: string | null;
  choose: (folder: string) => void;
}) {
  const { drills: words, words: common } = useWords();
  return (
    <Section title={words.opened}>
      <Rows
        label={words.opened}
        heads={[words.folder, words.verdict, words.topic, words.changed, words.began, common.took]}
        minWidth={820}
      >
        {drills.map(({ folder, record }) => (
          <Table.Tr key={folder} aria-current={folder === chosen || undefined}>
            <Table.Td>
              <button
                type="button"
                className="link-button"
                aria-pressed={folder === chosen}
                onClick={() => choose(folder)}
              >
                {folder}
              </button>
            </Table.Td>
            <Table.Td>
              <Verdict word={record.observed_result.verdict} />
            </Table.Td>
            <Table.Td>{record.topic}</Table.Td>
            <Table.Td>{record.conditions.changed ?? "–"}</Table.Td>
            <Table.Td>
              <Group gap={0} wrap="nowrap">
                <Instant at={record.execution.began} />
              </Group>
            </Table.Td>
            <Table.Td style={{ whiteSpace: "nowrap" }}>
              {length(record.execution.took_ms, common.units)}
            </Table.Td>
          </Table.Tr>
        ))}
      </Rows>
    </Section>
  );
}
