// The page for those who have no token here.
import {
  Alert,
  Button,
  Center,
  Group,
  Paper,
  PasswordInput,
  Stack,
  Text,
  Title,
} from "@mantine/core";
import { useState } from "react";
import { useWords } from "../i18n/words";
import { Language, Theme } from "../ui/switches";
import { session } from "./token";

export function Login() {
  const { login, nav } = useWords();
  const [token, setToken] = useState("");
  const ended = session.ended();
  return (
    <Center mih="100vh" p="md" component="main">
      <Paper withBorder p="xl" radius="md" w="100%" maw={460}>
        <form
          onSubmit={(event) => {
            event.preventDefault();
            if (token.trim() !== "") session.begin(token.trim());
          }}
        >
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
            <Text size="sm">{login.hint}</Text>
            <PasswordInput
              label={login.token}
              description={login.kept}
              value={token}
              onChange={(event) => setToken(event.currentTarget.value)}
              autoComplete="off"
              autoFocus
              required
            />
            <Button type="submit">{login.enter}</Button>
            <Group justify="space-between">
              <Language />
              <Theme />
            </Group>
          </Stack>
        </form>
      </Paper>
    </Center>
  );
}
