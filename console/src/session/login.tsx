// The page for those who are not logged in here: by name and password, or with a token.
import {
  Alert,
  Button,
  Center,
  Divider,
  Group,
  Paper,
  PasswordInput,
  Stack,
  Text,
  TextInput,
  Title,
} from "@mantine/core";
import { type FormEvent, useEffect, useState } from "react";
import { client, type Problem } from "../api/client";
import { useWords } from "../i18n/words";
import { Language, Theme } from "../ui/switches";
import { session } from "./token";

export function Login() {
  const { login, nav } = useWords();
  const ended = session.ended();
  const refused = session.refused();
  return (
    <Center mih="100vh" p="md" component="main">
      <Paper withBorder p="xl" radius="md" w="100%" maw={460}>
        <Stack>
          <Title order={1} size="h3">
            {nav.title} · {login.title}
          </Title>
          {ended === "refused" && (
            <Alert color="red" role="alert">
              {login.refused}
            </Alert>
          )}
          {ended === "left" && <Alert color="gray">{login.left}</Alert>}
          {refused !== null && (
            <Alert color="red" role="alert">
              {login.outside[refused] ?? login.outsideOther(refused)}
            </Alert>
          )}
          <ByProvider />
          <ByPassword />
          <Divider label={login.or} />
          <ByToken />
          <Group justify="space-between">
            <Language />
            <Theme />
          </Group>
        </Stack>
      </Paper>
    </Center>
  );
}

/** A way to the provider, where there is one. */
function ByProvider() {
  const { login } = useWords();
  const [name, setName] = useState<string | null>(null);
  useEffect(() => {
    let gone = false;
    // Where nobody tells, there is no button.
    client.GET("/api/v1/login").then(
      ({ data }) => {
        if (!gone) setName(data?.provider ?? null);
      },
      () => {},
    );
    return () => {
      gone = true;
    };
  }, []);
  if (name === null) return null;
  return (
    <Button component="a" href="/api/v1/login/oidc" variant="filled">
      {login.by(name)}
    </Button>
  );
}

function ByPassword() {
  const { login, state } = useWords();
  const [user, setUser] = useState("");
  const [password, setPassword] = useState("");
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  const enter = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setError("");
    try {
      const answer = await fetch("/api/v1/login", {
        method: "POST",
        headers: { "Content-Type": "application/json", ...session.headers() },
        body: JSON.stringify({ user: user.trim(), password }),
      });
      if (answer.ok) {
        session.loggedIn(user.trim());
        return;
      }
      const problem = (await answer.json()) as Problem;
      setError(problem.code === "SC6031" ? login.wrong : problem.detail);
    } catch {
      setError(state.away);
    } finally {
      setBusy(false);
    }
    setPassword("");
  };
  return (
    <form onSubmit={(event) => void enter(event)}>
      <Stack gap="sm">
        {error !== "" && (
          <Alert color="red" role="alert">
            {error}
          </Alert>
        )}
        <TextInput
          label={login.user}
          value={user}
          onChange={(event) => setUser(event.currentTarget.value)}
          autoComplete="username"
          autoFocus
          required
        />
        <PasswordInput
          label={login.password}
          value={password}
          onChange={(event) => setPassword(event.currentTarget.value)}
          autoComplete="current-password"
          required
        />
        <Button type="submit" loading={busy}>
          {login.enter}
        </Button>
      </Stack>
    </form>
  );
}

function ByToken() {
  const { login } = useWords();
  const [token, setToken] = useState("");
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        if (token.trim() !== "") session.begin(token.trim());
      }}
    >
      <Stack gap="sm">
        <Text size="sm">{login.hint}</Text>
        <PasswordInput
          label={login.token}
          description={login.kept}
          value={token}
          onChange={(event) => setToken(event.currentTarget.value)}
          autoComplete="off"
          required
        />
        <Button type="submit" variant="default">
          {login.enterByToken}
        </Button>
      </Stack>
    </form>
  );
}
