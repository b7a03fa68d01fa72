// Tokens: who may do what, and until when.
//
// Invariants: a secret is shown once, from the answer that made it, and kept nowhere.
import { Alert, Code, Group, Modal, Stack, Table, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { act } from "../api/actions";
import type { Token } from "../api/client";
import { query } from "../api/queries";
import { useWords } from "../i18n/words";
import { EVERYWHERE } from "../session/roles";
import { Instant } from "../time/zone";
import { Confirm, Effect } from "../ui/confirm";
import { Empty, Loaded } from "../ui/loaded";
import { MayButton } from "../ui/may";
import { Copied, Page, Rows, Section } from "../ui/parts";
import { Dot } from "../ui/state";
import { NewToken } from "./token_new";

type Made = { name: string; secret: string };

export default function Tokens() {
  const { tokens } = useWords();
  const asked = useQuery(query.tokens());
  const me = useQuery(query.me());
  const [making, setMaking] = useState(false);
  const [made, setMade] = useState<Made | null>(null);
  const [revoking, setRevoking] = useState<Token | null>(null);
  return (
    <Page
      title={tokens.title}
      aside={
        <MayButton needs="admin" size="xs" onClick={() => setMaking(true)}>
          {tokens.new}
        </MayButton>
      }
    >
      {me.data && (
        <Text size="sm" component="div">
          {tokens.mine} <b>{me.data.actor}</b>{" "}
          {me.data.expires_at && (
            <>
              {tokens.mineUntil} <Instant at={me.data.expires_at} />
            </>
          )}
        </Text>
      )}
      <Section title={tokens.title}>
        <Loaded asked={asked}>
          {({ items }) =>
            items.length === 0 ? (
              <Empty>{tokens.none}</Empty>
            ) : (
              <Listed items={items} revoke={setRevoking} />
            )
          }
        </Loaded>
      </Section>
      <NewToken opened={making} close={() => setMaking(false)} made={setMade} />
      <Secret made={made} close={() => setMade(null)} />
      <Revoke token={revoking} close={() => setRevoking(null)} />
    </Page>
  );
}

function Listed({ items, revoke }: { items: Token[]; revoke: (token: Token) => void }) {
  const { tokens, words } = useWords();
  const heads = [
    words.name,
    words.state,
    tokens.kind,
    tokens.rights,
    tokens.expires,
    tokens.used,
    tokens.by,
    words.actions,
  ];
  return (
    <Rows label={tokens.title} heads={heads} minWidth={980}>
      {items.map((token) => (
        <Table.Tr key={token.name}>
          <Table.Td>{token.name}</Table.Td>
          <Table.Td>
            <Dot color={token.state === "live" ? "teal" : "gray"}>
              {(tokens.states as Record<string, string>)[token.state] ?? token.state}
            </Dot>
          </Table.Td>
          <Table.Td>{(tokens.kinds as Record<string, string>)[token.kind] ?? token.kind}</Table.Td>
          <Table.Td>
            <Rights token={token} />
          </Table.Td>
          <Table.Td>{token.expires_at ? <Instant at={token.expires_at} /> : tokens.never}</Table.Td>
          <Table.Td>{token.used_at ? <Instant at={token.used_at} /> : tokens.unused}</Table.Td>
          <Table.Td>
            <Text size="sm">{token.created_by}</Text>
            <Text size="xs" c="dimmed" component="div">
              <Instant at={token.created_at} />
            </Text>
          </Table.Td>
          <Table.Td>
            {token.state === "live" && (
              <MayButton
                needs="admin"
                size="compact-xs"
                variant="outline"
                color="red"
                aria-label={`${tokens.revoke}: ${token.name}`}
                onClick={() => revoke(token)}
              >
                {tokens.revoke}
              </MayButton>
            )}
          </Table.Td>
        </Table.Tr>
      ))}
    </Rows>
  );
}

function Rights({ token }: { token: Token }) {
  const { tokens } = useWords();
  const rights =
    token.kind === "join"
      ? [
          tokens.joins(token.pool ?? ""),
          ...(token.workers ?? []).map(tokens.asWorker),
          ...(token.handlers?.length ? token.handlers : [tokens.anyHandler]),
        ]
      : (token.roles ?? []).map(({ role, namespace }) =>
          tokens.roleIn(role, namespace === EVERYWHERE ? tokens.everywhere : namespace),
        );
  return (
    <Group gap={4}>
      {rights.map((right) => (
        <span key={right} className="tag">
          {right}
        </span>
      ))}
    </Group>
  );
}

function Secret({ made, close }: { made: Made | null; close: () => void }) {
  const { tokens, state } = useWords();
  return (
    <Modal
      opened={made !== null}
      onClose={close}
      title={made && tokens.secretTitle(made.name)}
      size="lg"
      // A click beside it would lose the secret for good.
      closeOnClickOutside={false}
      closeButtonProps={{ "aria-label": state.close }}
    >
      {made && (
        <Stack>
          <Alert color="orange">{tokens.secretHint}</Alert>
          <Group gap="xs" wrap="nowrap">
            <Code block style={{ flex: 1, overflowWrap: "anywhere", whiteSpace: "pre-wrap" }}>
              {made.secret}
            </Code>
            <Copied text={made.secret} word={tokens.secret} />
          </Group>
        </Stack>
      )}
    </Modal>
  );
}

function Revoke({ token, close }: { token: Token | null; close: () => void }) {
  const { tokens, pause } = useWords();
  const name = token?.name ?? "";
  return (
    <Confirm
      opened={token !== null}
      close={close}
      title={tokens.revokeTitle(name)}
      type={{ text: name, ask: pause.type(name) }}
      go={tokens.revokeGo}
      color="red"
      act={() => act.revokeToken(name)}
    >
      <Effect>{tokens.revokeEffect}</Effect>
    </Confirm>
  );
}
