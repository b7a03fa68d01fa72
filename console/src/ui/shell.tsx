// What is around every view: navigation, search, switches, and whether the server answers.
import {
  ActionIcon,
  Alert,
  AppShell,
  Badge,
  Burger,
  Button,
  Group,
  NavLink,
  Popover,
  Stack,
  Text,
  TextInput,
  Tooltip,
} from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { type ReactNode, useEffect, useRef, useState } from "react";
import { Link, useLocation, useNavigate } from "react-router";
import { wanted } from "../find";
import { useWords } from "../i18n/words";
import { useLink } from "../live/watch";
import { session } from "../session/token";
import { Icon } from "./icon";
import { useMay, useSeesAll } from "./may";
import { Language, Theme, Zone } from "./switches";

export function Shell({ children }: { children: ReactNode }) {
  const { nav } = useWords();
  const [opened, { toggle, close }] = useDisclosure(false);
  const { pathname } = useLocation();
  useEffect(close, [pathname]);
  const may = useMay();
  const seesAll = useSeesAll();
  // Numbers over all namespaces, and what serves them all, are for those who see all.
  const entries: [string, string][] = [
    ...(seesAll ? [["/", nav.overview] as [string, string]] : []),
    ["/jobs", nav.jobs],
    ["/runs", nav.runs],
    ["/dead-letters", nav.deadLetters],
    ...(seesAll ? [["/alerts", nav.alerts] as [string, string]] : []),
    ...(seesAll ? [["/workers", nav.workers] as [string, string]] : []),
    ["/calendars", nav.calendars],
    ...(seesAll
      ? ([
          ["/capacities", nav.capacities],
          ["/namespaces", nav.namespaces],
          ["/cluster", nav.cluster],
        ] as [string, string][])
      : []),
    ["/audit", nav.audit],
    ["/drills", nav.drills],
    ...(may("admin") ? [["/tokens", nav.tokens] as [string, string]] : []),
  ];
  return (
    <AppShell
      header={{ height: 56 }}
      navbar={{ width: 200, breakpoint: "md", collapsed: { mobile: !opened } }}
      padding="md"
    >
      <a href="#content" className="skip">
        {nav.skip}
      </a>
      <AppShell.Header px="md">
        <Group h="100%" wrap="nowrap" gap="sm">
          <Burger
            opened={opened}
            onClick={toggle}
            hiddenFrom="md"
            size="sm"
            aria-label={nav.menu}
          />
          <Text
            component={Link}
            to="/"
            fw={700}
            visibleFrom="sm"
            style={{ whiteSpace: "nowrap", textDecoration: "none", color: "inherit" }}
          >
            {nav.title}
          </Text>
          <Search />
          <div style={{ flex: 1 }} />
          <LinkState />
          <Group gap="xs" visibleFrom="lg" wrap="nowrap">
            <Zone />
            <Language />
          </Group>
          <Settings />
        </Group>
      </AppShell.Header>
      <AppShell.Navbar p="xs" aria-label={nav.menu}>
        {entries.map(([to, word]) => (
          <NavLink
            key={to}
            component={Link}
            to={to}
            label={word}
            active={to === "/" ? pathname === "/" : pathname.startsWith(to)}
            aria-current={pathname === to ? "page" : undefined}
          />
        ))}
      </AppShell.Navbar>
      <AppShell.Main id="content" tabIndex={-1} style={{ minWidth: 0 }}>
        <Away />
        {children}
      </AppShell.Main>
    </AppShell>
  );
}

function Search() {
  const { nav } = useWords();
  const navigate = useNavigate();
  const [text, setText] = useState("");
  const box = useRef<HTMLInputElement>(null);
  useEffect(() => {
    const heard = (event: KeyboardEvent) => {
      const inField =
        event.target instanceof HTMLElement &&
        event.target.closest("input,textarea,[contenteditable]");
      if (event.key === "/" && !inField && !event.ctrlKey && !event.metaKey) {
        event.preventDefault();
        box.current?.focus();
      }
    };
    window.addEventListener("keydown", heard);
    return () => window.removeEventListener("keydown", heard);
  }, []);
  return (
    <form
      role="search"
      style={{ flex: 100, minWidth: 0, maxWidth: 480 }}
      onSubmit={(event) => {
        event.preventDefault();
        const found = wanted(text);
        if (found === null) return;
        setText("");
        switch (found.kind) {
          case "run":
            return navigate(`/runs/${encodeURIComponent(found.id)}`);
          case "job":
            return navigate(`/jobs/${found.namespace}/${found.name}`);
          case "jobs":
            return navigate(`/jobs?search=${encodeURIComponent(found.search)}&open=1`);
        }
      }}
    >
      <TextInput
        ref={box}
        size="xs"
        value={text}
        onChange={(event) => setText(event.currentTarget.value)}
        placeholder={nav.search}
        aria-label={nav.search}
        rightSection={
          <Text size="xs" c="dimmed" aria-hidden>
            /
          </Text>
        }
      />
    </form>
  );
}

function LinkState() {
  const { state } = useWords();
  const link = useLink();
  if (link === "opening") return null;
  return (
    <Badge
      color={link === "live" ? "teal" : "red"}
      variant="dot"
      tt="none"
      role="status"
      visibleFrom="xs"
      style={{ flexShrink: 0 }}
    >
      {link === "live" ? state.live : state.notLive}
    </Badge>
  );
}

/** Says that the server is away, once it has been for a moment. */
function Away() {
  const { state } = useWords();
  const link = useLink();
  const [late, setLate] = useState(false);
  useEffect(() => {
    if (link !== "away") return setLate(false);
    const timer = setTimeout(() => setLate(true), 700);
    return () => clearTimeout(timer);
  }, [link]);
  if (!late) return null;
  return (
    <Alert color="red" role="alert" mb="md">
      {state.away}
    </Alert>
  );
}

function Settings() {
  const { nav } = useWords();
  return (
    <Popover position="bottom-end" withArrow trapFocus>
      <Popover.Target>
        <Tooltip label={nav.settings}>
          <ActionIcon variant="default" size="md" aria-label={nav.settings}>
            <Icon draw="settings" />
          </ActionIcon>
        </Tooltip>
      </Popover.Target>
      <Popover.Dropdown>
        <Stack gap="sm">
          <Labelled word={nav.zone}>
            <Zone />
          </Labelled>
          <Labelled word={nav.language}>
            <Language />
          </Labelled>
          <Labelled word={nav.theme}>
            <Theme />
          </Labelled>
          <Button variant="default" size="xs" onClick={() => session.end("left")}>
            {nav.leave}
          </Button>
        </Stack>
      </Popover.Dropdown>
    </Popover>
  );
}

function Labelled({ word, children }: { word: string; children: ReactNode }) {
  return (
    <div>
      <Text size="xs" c="dimmed" mb={4}>
        {word}
      </Text>
      {children}
    </div>
  );
}
