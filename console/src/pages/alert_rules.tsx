// The rules by which people are told, in words, and where each is looked at.
import { Stack, Table, Text } from "@mantine/core";
import { useWords } from "../i18n/words";
import { Rows, Section, To } from "../ui/parts";

export const RULES = [
  "failures",
  "partial",
  "surge",
  "dead_letters",
  "slower",
  "not_started",
  "missed",
  "late",
  "no_success",
  "no_worker",
  "backlog",
  "capacity_exhausted",
  "no_lease",
  "no_owner",
  "owner_flapping",
  "old_transaction",
  "clock_step",
] as const;

type Rule = (typeof RULES)[number];

interface RuleWords {
  title: string;
  when: string;
  usually: string;
  toDo: string;
}

/** The words of a rule; of one that this console does not know, its name. */
export function useRuleWords(): (rule: string) => RuleWords {
  const { alerts } = useWords();
  return (rule) => alerts.rules[rule as Rule] ?? { title: rule, when: "", usually: "", toDo: "" };
}

type Page = "deadLetters" | "workers" | "audit" | "cluster" | "jobs" | "runs" | "capacities";

/** The page that a rule's condition can be seen on. */
const PLACES: Record<Rule, [string, Page]> = {
  failures: ["/dead-letters", "deadLetters"],
  partial: ["/dead-letters", "deadLetters"],
  surge: ["/dead-letters", "deadLetters"],
  dead_letters: ["/dead-letters", "deadLetters"],
  slower: ["/runs?state=running", "runs"],
  not_started: ["/workers", "workers"],
  missed: ["/audit", "audit"],
  late: ["/cluster", "cluster"],
  no_success: ["/jobs", "jobs"],
  no_worker: ["/workers", "workers"],
  backlog: ["/workers", "workers"],
  capacity_exhausted: ["/capacities", "capacities"],
  no_lease: ["/workers", "workers"],
  no_owner: ["/cluster", "cluster"],
  owner_flapping: ["/cluster", "cluster"],
  old_transaction: ["/cluster", "cluster"],
  clock_step: ["/cluster", "cluster"],
};

export function Explained() {
  const { alerts, nav } = useWords();
  return (
    <Section title={alerts.explained}>
      <Rows
        label={alerts.explained}
        heads={[alerts.rule, alerts.what, alerts.usually, alerts.toDo]}
        minWidth={760}
      >
        {RULES.map((rule) => {
          const words = alerts.rules[rule];
          const [to, page] = PLACES[rule];
          return (
            <Table.Tr key={rule}>
              <Table.Td style={{ verticalAlign: "top" }}>
                <Stack gap={2}>
                  {words.title}
                  <Text size="xs" c="dimmed" ff="monospace">
                    {rule}
                  </Text>
                </Stack>
              </Table.Td>
              <Table.Td style={{ verticalAlign: "top" }}>{words.when}</Table.Td>
              <Table.Td style={{ verticalAlign: "top" }}>{words.usually}</Table.Td>
              <Table.Td style={{ verticalAlign: "top" }}>
                <Stack gap={2} align="flex-start">
                  {words.toDo}
                  <To to={to}>{nav[page]}</To>
                </Stack>
              </Table.Td>
            </Table.Tr>
          );
        })}
      </Rows>
    </Section>
  );
}
