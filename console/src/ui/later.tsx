// Views that are loaded when they are first wanted.
//
// Invariants: what is loaded already is drawn at once (React's own `Suspense` holds a view back for a
// third of a second once its stand-in was seen). A part that can't be loaded, because the server was
// upgraded since this page was opened or is away, is said to be so instead of leaving nothing.
import { Alert, Button, Stack } from "@mantine/core";
import { Component, type ComponentType, type ReactNode, useEffect, useState } from "react";
import { useWords } from "../i18n/words";
import { Loading } from "./loaded";

type Load<P> = () => Promise<{ default: ComponentType<P> }>;

const waiting: (() => Promise<unknown>)[] = [];

/** A view whose code `load` brings. */
export function later<P extends object>(load: Load<P>): ComponentType<P> {
  let View: ComponentType<P> | null = null;
  const bring = () =>
    load().then((module) => {
      View = module.default;
    });
  waiting.push(bring);
  return function Later(props: P) {
    const [state, setState] = useState<"loading" | "there" | "failed">(
      View === null ? "loading" : "there",
    );
    useEffect(() => {
      if (View !== null) return;
      let gone = false;
      bring().then(
        () => !gone && setState("there"),
        () => !gone && setState("failed"),
      );
      return () => {
        gone = true;
      };
    }, []);
    if (state === "failed") return <Outdated />;
    return View === null ? <Loading /> : <View {...props} />;
  };
}

/** Loads all views while nothing else is to do, so that each is there when it is wanted. */
export function loadInPeace() {
  const next = () => {
    const bring = waiting.shift();
    if (bring === undefined) return;
    void bring()
      .catch(() => {})
      .then(inPeace);
  };
  const inPeace = () =>
    "requestIdleCallback" in window ? requestIdleCallback(next) : setTimeout(next, 200);
  inPeace();
}

function Outdated() {
  const { state } = useWords();
  return (
    <Alert color="orange" title={state.failed} role="alert">
      <Stack gap="xs" align="flex-start">
        {state.outdated}
        <Reload />
      </Stack>
    </Alert>
  );
}

function Reload() {
  const { state } = useWords();
  return (
    <Button size="xs" variant="default" onClick={() => window.location.reload()}>
      {state.reload}
    </Button>
  );
}

/** Keeps what is around a view when drawing the view itself fails; `at` another view is tried anew. */
export class Guarded extends Component<
  { at: string; children: ReactNode },
  { error: Error | null }
> {
  override state = { error: null as Error | null };

  static getDerivedStateFromError(error: Error) {
    return { error };
  }

  override componentDidUpdate(before: { at: string }) {
    if (before.at !== this.props.at && this.state.error !== null) this.setState({ error: null });
  }

  override render() {
    return this.state.error === null ? this.props.children : <Broken error={this.state.error} />;
  }
}

function Broken({ error }: { error: Error }) {
  const { state } = useWords();
  return (
    <Alert color="red" title={state.failed} role="alert">
      <Stack gap="xs" align="flex-start">
        {state.broken} {error.message}
        <Reload />
      </Stack>
    </Alert>
  );
}
