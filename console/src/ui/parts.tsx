// Small pieces that many pages are made of.
import {
  ActionIcon,
  Anchor,
  Box,
  Button,
  CopyButton,
  Group,
  Paper,
  Progress,
  Stack,
  Table,
  Text,
  Title,
  Tooltip,
} from "@mantine/core";
import type { ReactNode } from "react";
import { Link } from "react-router";
import type { Run } from "../api/client";
import { type JobName, shownJob } from "../api/queries";
import { useWords } from "../i18n/words";
import { Icon } from "./icon";

export function Page({
  title,
  aside,
  children,
}: {
  title: ReactNode;
  aside?: ReactNode;
  children: ReactNode;
}) {
  return (
    <Stack gap="md">
      <Group justify="space-between" gap="sm" align="center">
        <Title order={1} size="h3" style={{ overflowWrap: "anywhere", minWidth: 0 }}>
          {title}
        </Title>
        {aside && <Group gap="xs">{aside}</Group>}
      </Group>
      {children}
    </Stack>
  );
}

export function Section({
  title,
  aside,
  children,
}: {
  title: string;
  aside?: ReactNode;
  children: ReactNode;
}) {
  return (
    <Paper
      withBorder
      p="md"
      radius="md"
      component="section"
      aria-label={title}
      style={{ minWidth: 0 }}
    >
      <Group justify="space-between" mb="xs" gap="xs">
        <Title order={2} size="h5">
          {title}
        </Title>
        {aside}
      </Group>
      {children}
    </Paper>
  );
}

/** A table that scrolls sideways in itself where the window is narrow. */
export function Rows({
  heads,
  children,
  label,
}: {
  heads: ReactNode[];
  children: ReactNode;
  label: string;
}) {
  return (
    <Box style={{ overflowX: "auto" }} tabIndex={0} role="region" aria-label={label}>
      <Table verticalSpacing={6} horizontalSpacing="sm" highlightOnHover aria-label={label}>
        <Table.Thead>
          <Table.Tr>
            {heads.map((head, index) => (
              <Table.Th key={index} style={{ whiteSpace: "nowrap" }}>
                {head}
              </Table.Th>
            ))}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>{children}</Table.Tbody>
      </Table>
    </Box>
  );
}

export function To({ to, children }: { to: string; children: ReactNode }) {
  return (
    <Anchor component={Link} to={to} size="sm">
      {children}
    </Anchor>
  );
}

export const jobAddress = (job: JobName) =>
  `/jobs/${encodeURIComponent(job.namespace)}/${encodeURIComponent(job.name)}`;

export function JobLink({ job }: { job: JobName }) {
  return <To to={jobAddress(job)}>{shownJob(job)}</To>;
}

/** How many shards of a run are in which state, as a bar and in words. */
export function ShardBar({ run, wide }: { run: Run; wide?: boolean }) {
  const { words, states } = useWords();
  const { total, succeeded, failed, cancelled } = run.shards;
  const all = Math.max(1, total);
  const text = words.of(succeeded + failed + cancelled, total);
  const part = (count: number, color: string, name: string) =>
    count > 0 && (
      <Progress.Section
        value={(100 * count) / all}
        color={color}
        aria-label={`${name}: ${count}`}
      />
    );
  return (
    <Group gap="xs" wrap="nowrap" w={wide ? "100%" : 170}>
      <Progress.Root size="md" style={{ flex: 1 }} aria-hidden>
        {part(succeeded, "teal", states.succeeded)}
        {part(failed, "red", states.failed)}
        {part(cancelled, "gray", states.cancelled)}
      </Progress.Root>
      <Text size="xs" c="dimmed" style={{ whiteSpace: "nowrap" }}>
        {text}
      </Text>
    </Group>
  );
}

/** A word and its value, one below the other. */
export function Fact({ word, children }: { word: string; children: ReactNode }) {
  return (
    <Box style={{ minWidth: 0 }}>
      <Text size="xs" c="dimmed">
        {word}
      </Text>
      <Text size="sm" component="div" style={{ overflowWrap: "anywhere" }}>
        {children}
      </Text>
    </Box>
  );
}

/** Words and values, as many in a line as there is room for. */
export function Facts({ children }: { children: ReactNode }) {
  return <div className="facts">{children}</div>;
}

export function Copied({ text, word }: { text: string; word: string }) {
  const { state } = useWords();
  return (
    <CopyButton value={text}>
      {({ copied, copy }) => (
        <Tooltip label={copied ? state.copied : state.copy}>
          <ActionIcon
            variant="subtle"
            color={copied ? "teal" : "gray"}
            size="sm"
            onClick={copy}
            aria-label={`${state.copy}: ${word}`}
          >
            <Icon draw={copied ? "done" : "copy"} />
          </ActionIcon>
        </Tooltip>
      )}
    </CopyButton>
  );
}

/** The end of a listing: a button that brings more, or that there is no more. */
export function More({
  asked,
  word,
}: {
  asked: { hasNextPage: boolean; isFetchingNextPage: boolean; fetchNextPage: () => unknown };
  word?: string;
}) {
  const { state } = useWords();
  if (!asked.hasNextPage) return null;
  return (
    <Group justify="center" mt="sm">
      <Button
        variant="default"
        size="xs"
        loading={asked.isFetchingNextPage}
        onClick={() => void asked.fetchNextPage()}
      >
        {word ?? state.more}
      </Button>
    </Group>
  );
}
