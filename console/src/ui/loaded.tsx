// What stands in a view's place while there is nothing to show in it: loading, refused, missing.
import { Alert, Button, Center, Code, Loader, Stack, Text } from "@mantine/core";
import type { ReactNode } from "react";
import { Refused } from "../api/client";
import { useWords } from "../i18n/words";

interface Asked<T> {
  data: T | undefined;
  error: Error | null;
  isPending: boolean;
  refetch: () => unknown;
}

/** The view of `asked` once there is an answer. An older answer stays while a newer one is refused. */
export function Loaded<T>({
  asked,
  children,
}: {
  asked: Asked<T>;
  children: (data: T) => ReactNode;
}) {
  if (asked.data !== undefined) return <>{children(asked.data)}</>;
  if (asked.error) return <Failure error={asked.error} again={() => void asked.refetch()} />;
  return <Loading />;
}

export function Loading() {
  const { state } = useWords();
  return (
    <Center py="xl" role="status" aria-live="polite">
      <Stack align="center" gap="xs">
        <Loader size="sm" />
        <Text size="sm" c="dimmed">
          {state.loading}
        </Text>
      </Stack>
    </Center>
  );
}

export function Failure({ error, again }: { error: Error; again?: () => void }) {
  const { state } = useWords();
  const status = error instanceof Refused ? error.status : 0;
  const title = status === 403 ? state.denied : status === 404 ? state.missing : state.failed;
  return (
    <Alert color={status === 404 ? "gray" : "red"} title={title} role="alert" my="sm">
      <Stack gap="xs" align="flex-start">
        <Refusal error={error} />
        {status === 403 && <Text size="sm">{state.deniedHint}</Text>}
        {again && status !== 403 && status !== 404 && (
          <Button size="xs" variant="default" onClick={again}>
            {state.retry}
          </Button>
        )}
      </Stack>
    </Alert>
  );
}

/** The server's words for why not. */
export function Refusal({ error }: { error: Error }) {
  const { state } = useWords();
  if (!(error instanceof Refused)) return <Text size="sm">{error.message}</Text>;
  if (error.isAway) return <Text size="sm">{state.away}</Text>;
  return (
    <Text size="sm" style={{ overflowWrap: "anywhere" }}>
      {error.message} {error.code && <Code>{error.code}</Code>}
    </Text>
  );
}

export function Empty({ children, action }: { children: ReactNode; action?: ReactNode }) {
  return (
    <Center py="xl">
      <Stack align="center" gap="sm">
        <Text c="dimmed" ta="center" maw={460}>
          {children}
        </Text>
        {action}
      </Stack>
    </Center>
  );
}
