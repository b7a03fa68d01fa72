// Several records side by side: which condition differs, and what that made of the measures.
//
// Invariants: where more than one condition differs it is said, since nobody could tell which of them
// made the difference (`sichen drill compare` refuses these).
import { Alert, Stack, Table, Text } from "@mantine/core";
import { useWords } from "../i18n/words";
import { length } from "../time/instant";
import { Rows, Section } from "../ui/parts";
import { COUNTS, type Drill, differing, SPREADS } from "./drill_record";
import { Verdict } from "./drills";

export function Compared({ drills }: { drills: Drill[] }) {
  const { drills: words, words: common } = useWords();
  const records = drills.map(({ record }) => record);
  const differ = differing(records);
  const heads = ["", ...drills.map(({ folder }) => folder.split("/").at(-1) ?? folder)];
  return (
    <Section title={words.compared}>
      <Stack gap="xs">
        {differ.length > 1 && (
          <Alert color="orange">{words.differMany(differ.map(([name]) => name).join(", "))}</Alert>
        )}
        {differ.length === 0 && <Text size="sm">{words.differNone}</Text>}
        <Rows label={words.compared} heads={heads} minWidth={220 + 150 * drills.length}>
          <Table.Tr>
            <Table.Td>{words.verdict}</Table.Td>
            {records.map((record, index) => (
              <Table.Td key={index}>
                <Verdict word={record.observed_result.verdict} />
              </Table.Td>
            ))}
          </Table.Tr>
          {differ.map(([name, values]) => (
            <Table.Tr key={name}>
              <Table.Td>
                {words.condition}: {name}
              </Table.Td>
              {values.map((value, index) => (
                <Table.Td key={index}>{value}</Table.Td>
              ))}
            </Table.Tr>
          ))}
          {SPREADS.map((name) => (
            <Table.Tr key={name}>
              <Table.Td>
                {words.measure[name]}, 99 % / {words.longest}
              </Table.Td>
              {records.map((record, index) => {
                const { count, p99_ms, max_ms } = record.observed_result.measures[name];
                return (
                  <Table.Td key={index} style={{ fontVariantNumeric: "tabular-nums" }}>
                    {count === 0
                      ? "–"
                      : `${length(p99_ms, common.units)} / ${length(max_ms, common.units)}`}
                  </Table.Td>
                );
              })}
            </Table.Tr>
          ))}
          {COUNTS.map((name) => (
            <Table.Tr key={name}>
              <Table.Td>{words.measure[name]}</Table.Td>
              {records.map((record, index) => (
                <Table.Td key={index}>
                  {common.number(record.observed_result.measures[name])}
                </Table.Td>
              ))}
            </Table.Tr>
          ))}
        </Rows>
      </Stack>
    </Section>
  );
}
