// Making a token: for people and programs with roles, or for workers of a pool.
import { Button, Group, SegmentedControl, Select, Stack, TextInput } from "@mantine/core";
import { useEffect, useState } from "react";
import { act } from "../api/actions";
import type { NewToken as Wanted } from "../api/client";
import { useWords } from "../i18n/words";
import { EVERYWHERE, ROLES, type Role } from "../session/roles";
import { Confirm } from "../ui/confirm";

/** For how many days a token may be made valid; 0 is for good. */
const DAYS = [1, 7, 30, 90, 365, 0];
const DAY_MS = 86_400_000;

interface RoleIn {
  namespace: string;
  role: Role;
}

const listed = (text: string) => text.split(/\s+/).filter(Boolean);

const VIEWER: RoleIn = { namespace: "default", role: "viewer" };

export function NewToken({
  opened,
  close,
  made,
}: {
  opened: boolean;
  close: () => void;
  made: (token: { name: string; secret: string }) => void;
}) {
  const { tokens } = useWords();
  const [name, setName] = useState("");
  const [kind, setKind] = useState<"api" | "join">("api");
  const [roles, setRoles] = useState<RoleIn[]>([VIEWER]);
  const [pool, setPool] = useState("default");
  const [handlers, setHandlers] = useState("");
  const [workers, setWorkers] = useState("");
  const [days, setDays] = useState(90);
  useEffect(() => {
    if (!opened) return;
    setName("");
    setKind("api");
    setRoles([VIEWER]);
  }, [opened]);
  const rights: Partial<Wanted> =
    kind === "api"
      ? { roles: roles.map(({ namespace, role }) => ({ namespace: namespace.trim(), role })) }
      : { pool: pool.trim(), handlers: listed(handlers), workers: listed(workers) };
  const ready =
    name.trim() !== "" &&
    (kind === "api" ? roles.every((one) => one.namespace.trim() !== "") : pool.trim() !== "");
  return (
    <Confirm
      opened={opened}
      close={close}
      title={tokens.newTitle}
      go={tokens.go}
      ready={ready}
      act={async () => {
        const expires = days === 0 ? undefined : new Date(Date.now() + days * DAY_MS);
        const answer = await act.makeToken({
          name: name.trim(),
          ...rights,
          ...(expires ? { expires_at: expires.toISOString() } : {}),
        });
        made({ name: answer.token.name, secret: answer.secret });
      }}
    >
      <SegmentedControl
        aria-label={tokens.kind}
        value={kind}
        onChange={(value) => setKind(value as "api" | "join")}
        data={[
          { value: "api", label: tokens.kinds.api },
          { value: "join", label: tokens.kinds.join },
        ]}
      />
      <TextInput
        label={tokens.name}
        description={tokens.nameHint}
        value={name}
        onChange={(event) => setName(event.currentTarget.value)}
        required
      />
      {kind === "api" ? (
        <Roles roles={roles} change={setRoles} />
      ) : (
        <>
          <TextInput
            label={tokens.pool}
            value={pool}
            onChange={(event) => setPool(event.currentTarget.value)}
            required
          />
          <TextInput
            label={tokens.handlers}
            value={handlers}
            onChange={(event) => setHandlers(event.currentTarget.value)}
          />
          <TextInput
            label={tokens.workers}
            value={workers}
            onChange={(event) => setWorkers(event.currentTarget.value)}
          />
        </>
      )}
      <Select
        label={tokens.lasts}
        allowDeselect={false}
        value={String(days)}
        onChange={(value) => setDays(Number(value))}
        data={DAYS.map((count) => ({
          value: String(count),
          label: count === 0 ? tokens.never : tokens.days(count),
        }))}
      />
    </Confirm>
  );
}

function Roles({ roles, change }: { roles: RoleIn[]; change: (roles: RoleIn[]) => void }) {
  const { tokens } = useWords();
  const put = (index: number, fresh: Partial<RoleIn>) =>
    change(roles.map((one, at) => (at === index ? { ...one, ...fresh } : one)));
  return (
    <Stack gap="xs">
      {roles.map((one, index) => (
        <Group key={index} align="flex-end" gap="xs" grow preventGrowOverflow={false}>
          <Select
            label={tokens.role}
            allowDeselect={false}
            value={one.role}
            onChange={(value) => put(index, { role: value as Role })}
            data={ROLES.map((role) => ({ value: role, label: tokens.roles[role] }))}
          />
          <TextInput
            label={tokens.in}
            description={index === 0 ? tokens.inHint : undefined}
            placeholder={EVERYWHERE}
            value={one.namespace}
            onChange={(event) => put(index, { namespace: event.currentTarget.value })}
          />
          {roles.length > 1 && (
            <Button
              variant="default"
              style={{ flex: "0 0 auto" }}
              aria-label={tokens.dropRole}
              onClick={() => change(roles.filter((_, at) => at !== index))}
            >
              –
            </Button>
          )}
        </Group>
      ))}
      <Group>
        <Button
          variant="default"
          size="xs"
          onClick={() => change([...roles, { ...VIEWER, namespace: "" }])}
        >
          {tokens.addRole}
        </Button>
      </Group>
    </Stack>
  );
}
