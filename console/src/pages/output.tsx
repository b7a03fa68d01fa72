// What an attempt's process wrote, as text, however much it is.
import { Button, Group, Switch, Text, TextInput } from "@mantine/core";
import { useCallback, useEffect, useRef, useState } from "react";
import { readOutput } from "../api/actions";
import { type Attempt, Refused } from "../api/client";
import { useWords } from "../i18n/words";
import { span, textOf } from "../text/log_window";
import { readable } from "../text/output";
import { Failure, Loading } from "../ui/loaded";
import { type Log, type Read, useLog } from "./use_log";

interface Wanted {
  id: string;
  no: number;
  attempt: Attempt;
  stream: "stdout" | "stderr";
}

/** Where a log is opened: who failed is asked for its last words, who runs for what comes. */
function opensAt(attempt: Attempt): "begin" | "end" | "follow" {
  if (attempt.end == null) return "follow";
  return attempt.end === "succeeded" ? "begin" : "end";
}

export function Output({ id, no, attempt, stream }: Wanted) {
  const read = useCallback<Read>(
    (offset, limit) => readOutput(id, no, attempt.number, stream, offset, limit),
    [id, no, attempt.number, stream],
  );
  const does = useLog(read, opensAt(attempt));
  const { log } = does;
  if (log === null) return <Loading />;
  if (log.pieces.length === 0 && log.error !== null) {
    if (log.error instanceof Refused && log.error.status > 0) {
      // Most handlers run no process; a worker that is gone has its output with it. Neither is a fault.
      return (
        <Text size="sm" c="dimmed">
          {log.error.message} ({log.error.code})
        </Text>
      );
    }
    return <Failure error={log.error} again={() => void does.begin()} />;
  }
  return <Shown log={log} does={does} stream={stream} isRunning={attempt.end == null} />;
}

interface Showing {
  log: Log;
  does: ReturnType<typeof useLog>;
  stream: string;
  isRunning: boolean;
}

function Shown({ log, does, stream, isRunning }: Showing) {
  const { shard: words, words: common } = useWords();
  const { from, to } = span(log.pieces);
  const isAll = from === 0 && to >= log.end;
  return (
    <>
      {(!isAll || isRunning) && <Tools log={log} does={does} isRunning={isRunning} />}
      <Bytes log={log} stream={stream} />
      <Group justify="space-between" mt={4} gap="xs">
        <Text size="xs" c="dimmed" data-from={from} data-to={to} data-end={log.end}>
          {isAll
            ? log.ended
              ? words.outputEnd
              : isRunning && words.outputOpen
            : words.outputPart(from, to, log.end)}
        </Text>
        {log.error !== null && (
          <Text size="xs" c="red" role="alert">
            {log.error.message}
          </Text>
        )}
        {!isAll && (
          <Group gap={4}>
            {from > 0 && (
              <Button size="compact-xs" variant="default" onClick={() => void does.earlier()}>
                {words.outputEarlier}
              </Button>
            )}
            {to < log.end && (
              <Button size="compact-xs" variant="default" onClick={() => void does.later()}>
                {words.outputMore}
              </Button>
            )}
          </Group>
        )}
      </Group>
      <span className="unseen" role="status">
        {log.missed
          ? words.outputMissed
          : log.searching !== null
            ? common.of(log.searching, log.end)
            : ""}
      </span>
    </>
  );
}

function Tools({ log, does, isRunning }: Omit<Showing, "stream">) {
  const { shard: words } = useWords();
  const [word, setWord] = useState("");
  const searching = log.searching !== null;
  return (
    <Group gap="xs" mb={6}>
      <Button size="compact-xs" variant="default" onClick={() => void does.begin()}>
        {words.outputBegin}
      </Button>
      <Button size="compact-xs" variant="default" onClick={() => void does.end()}>
        {words.outputToEnd}
      </Button>
      {isRunning && (
        <Switch
          size="xs"
          label={words.outputFollow}
          checked={log.follows}
          onChange={(event) => does.follow(event.currentTarget.checked)}
        />
      )}
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (searching) does.stop();
          else if (word !== "") void does.search(word);
        }}
      >
        <Group gap={4} wrap="nowrap">
          <TextInput
            size="xs"
            w={170}
            aria-label={words.outputSearch}
            placeholder={words.outputSearch}
            value={word}
            onChange={(event) => {
              setWord(event.currentTarget.value);
              does.forget();
            }}
          />
          <Button type="submit" size="compact-xs" variant="default" disabled={word === ""}>
            {searching ? words.outputStop : words.outputFind}
          </Button>
        </Group>
      </form>
      {searching && (
        <Text size="xs" c="dimmed">
          {words.outputSearching(Math.floor((100 * (log.searching ?? 0)) / Math.max(1, log.end)))}
        </Text>
      )}
      {log.missed && (
        <Text size="xs" c="dimmed">
          {words.outputMissed}
        </Text>
      )}
    </Group>
  );
}

function Bytes({ log, stream }: { log: Log; stream: string }) {
  const { shard: words } = useWords();
  const box = useRef<HTMLPreElement>(null);
  const { pieces, mark, place } = log;
  const [before, found, after] = textOf(pieces, mark);
  useEffect(() => {
    const element = box.current;
    if (element === null || place === null) return;
    if (place === "mark") {
      element.querySelector("mark")?.scrollIntoView({ block: "center", inline: "nearest" });
    } else {
      element.scrollTop = place === "top" ? 0 : element.scrollHeight;
    }
  }, [pieces, mark, place]);
  const skipped = pieces.reduce((sum, piece) => sum + piece.skipped, 0);
  if (pieces.length === 0) {
    return (
      <Text size="sm" c="dimmed">
        {words.outputNone}
      </Text>
    );
  }
  return (
    <>
      {skipped > 0 && (
        <Text size="xs" c="dimmed">
          {words.outputLost(skipped)}
        </Text>
      )}
      <pre
        ref={box}
        className="output"
        tabIndex={0}
        role="region"
        aria-label={`${words.output} ${stream}`}
      >
        {readable(before)}
        {found !== "" && <mark>{readable(found)}</mark>}
        {after !== "" && readable(after)}
      </pre>
    </>
  );
}
