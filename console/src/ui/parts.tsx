// Small pieces that many pages are made of.
import {
  ActionIcon,
  Box,
  Button,
  CopyButton,
  Group,
  Paper,
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
  minWidth,
}: {
  heads: ReactNode[];
  children: ReactNode;
  label: string;
  /** Of a table with sentences in its cells, in pixels. */
  minWidth?: number;
}) {
  return (
    <Box style={{ overflowX: "auto" }} tabIndex={0} role="region" aria-label={label}>
      <Table
        verticalSpacing={6}
        horizontalSpacing="sm"
        highlightOnHover
        aria-label={label}
        className="rows"
        // Narrower, and words would stand on top of each other: it scrolls instead.
        miw={minWidth ?? heads.length * 96}
      >
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
    <Link to={to} className="plain-link">
      {children}
    </Link>
  );
}

export const jobAddress = (job: JobName) =>
  `/jobs/${encodeURIComponent(job.namespace)}/${encodeURIComponent(job.name)}`;

export function JobLink({ job }: { job: JobName }) {
  return <To to={jobAddress(job)}>{shownJob(job)}</To>;
}

/** How many shards of a run are in which state, as a bar and in words; plain, for long tables. */
export function ShardBar({ run, wide }: { run: Run; wide?: boolean }) {
  const { words } = useWords();
  const { total, succeeded, failed, cancelled } = run.shards;
  const all = Math.max(1, total);
  const text = words.of(succeeded + failed + cancelled, total);
  const part = (count: number, color: string) =>
    count > 0 && (
      <span
        style={{
          width: `${(100 * count) / all}%`,
          background: `var(--mantine-color-${color}-6)`,
        }}
      />
    );
  return (
    <span className="shard-bar" style={{ width: wide ? "100%" : 170 }}>
      <span className="bar" aria-hidden>
        {part(succeeded, "teal")}
        {part(failed, "red")}
        {part(cancelled, "gray")}
      </span>
      <span className="dimmed small">{text}</span>
    </span>
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
