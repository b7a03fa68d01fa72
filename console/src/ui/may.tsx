// Buttons that say why they can't be used by whoever is here.
//
// Invariants: until the server has said what the token may do, everything looks allowed; it is the
// server that judges.
import { Button, type ButtonProps, Tooltip } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import type { ComponentPropsWithoutRef } from "react";
import { Link } from "react-router";
import { query } from "../api/queries";
import { useWords } from "../i18n/words";
import { allows, EVERYWHERE, type Role } from "../session/roles";

/** Whether the token here has a role, in a namespace or in any. */
export function useMay(): (least: Role, namespace?: string) => boolean {
  const me = useQuery(query.me());
  return (least, namespace) => me.data === undefined || allows(me.data.roles, least, namespace);
}

/** Whether the token here sees the cluster as a whole. */
export function useSeesAll(): boolean {
  return useMay()("viewer", EVERYWHERE);
}

interface Needs {
  /** The least role. */
  needs: Role;
  /** Where; in any namespace if left out. */
  namespace?: string;
}

function Refused({ needs, namespace, ...button }: Needs & ButtonProps) {
  const { state } = useWords();
  return (
    <Tooltip
      label={state.needs(needs, namespace)}
      events={{ hover: true, focus: true, touch: true }}
    >
      <Button
        {...button}
        loading={false}
        data-disabled
        aria-disabled
        onClick={(event: { preventDefault: () => void }) => event.preventDefault()}
      />
    </Tooltip>
  );
}

/** A button for those who have the role. */
export function MayButton({
  needs,
  namespace,
  onClick,
  ...button
}: Needs & ButtonProps & Pick<ComponentPropsWithoutRef<"button">, "onClick">) {
  const may = useMay();
  if (!may(needs, namespace)) return <Refused needs={needs} namespace={namespace} {...button} />;
  return <Button {...button} onClick={onClick} />;
}

/** A button that leads to another view, for those who have the role. */
export function MayLink({ needs, namespace, to, ...button }: Needs & ButtonProps & { to: string }) {
  const may = useMay();
  if (!may(needs, namespace)) return <Refused needs={needs} namespace={namespace} {...button} />;
  return <Button {...button} component={Link} to={to} />;
}
