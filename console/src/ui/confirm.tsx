// Asking before something dangerous: what exactly will happen, and the object's name typed.
import { Alert, Button, Group, Modal, Stack, Text, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { useWords } from "../i18n/words";
import { Refusal } from "./loaded";

interface Question {
  opened: boolean;
  close: () => void;
  title: string;
  /** What will happen. */
  children: ReactNode;
  /** What has to be typed, and the words that ask for it; nothing if left out. */
  type?: { text: string; ask: string };
  go: string;
  color?: string;
  /** Whether what is filled in will do. */
  ready?: boolean;
  act: () => Promise<unknown>;
  done?: () => void;
}

export function Confirm(question: Question) {
  return (
    <Modal
      opened={question.opened}
      onClose={question.close}
      title={question.title}
      size="lg"
      closeButtonProps={{ "aria-label": useWords().state.close }}
    >
      {question.opened && <Body {...question} />}
    </Modal>
  );
}

function Body({ close, children, type, go, color, ready, act, done }: Question) {
  const { state } = useWords();
  const cache = useQueryClient();
  const [typed, setTyped] = useState("");
  const acting = useMutation({
    mutationFn: act,
    onSuccess: () => {
      void cache.invalidateQueries();
      close();
      done?.();
    },
  });
  const may = (type === undefined || typed.trim() === type.text) && ready !== false;
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        if (may && !acting.isPending) acting.mutate();
      }}
    >
      <Stack>
        {children}
        {type && (
          <TextInput
            label={type.ask}
            value={typed}
            onChange={(event) => setTyped(event.currentTarget.value)}
            autoComplete="off"
            spellCheck={false}
            data-autofocus
          />
        )}
        {acting.error && (
          <Alert color="red" role="alert">
            <Refusal error={acting.error} />
          </Alert>
        )}
        <Group justify="flex-end">
          <Button variant="default" onClick={close}>
            {state.close}
          </Button>
          <Button type="submit" color={color} disabled={!may} loading={acting.isPending}>
            {go}
          </Button>
        </Group>
      </Stack>
    </form>
  );
}

/** A sentence of what will happen. */
export function Effect({ children }: { children: ReactNode }) {
  return <Text size="sm">{children}</Text>;
}
