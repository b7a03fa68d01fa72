// What an attempt's process wrote, as text, read on at the reader's pace.
import { Button, Group, Text } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { readOutput } from "../api/actions";
import { type Attempt, Refused } from "../api/client";
import { useWords } from "../i18n/words";
import { readable } from "../text/output";
import { Loaded } from "../ui/loaded";

interface Wanted {
  id: string;
  no: number;
  attempt: Attempt;
  stream: "stdout" | "stderr";
}

export function Output({ id, no, attempt, stream }: Wanted) {
  const { shard: words } = useWords();
  const asked = useInfiniteQuery({
    queryKey: ["attempts", id, no, attempt.number, stream],
    initialPageParam: 0,
    retry: false,
    queryFn: ({ pageParam }) => readOutput(id, no, attempt.number, stream, pageParam),
    getNextPageParam: (last) => (last.next < last.end ? last.next : undefined),
    // What a running attempt writes is read again from its last chunk on.
    refetchInterval: attempt.end ? false : 3_000,
  });
  if (asked.data === undefined && asked.error instanceof Refused && asked.error.status > 0) {
    // Most handlers run no process; a worker that is gone has its output with it. Neither is a fault.
    return (
      <Text size="sm" c="dimmed">
        {asked.error.message} ({asked.error.code})
      </Text>
    );
  }
  return (
    <Loaded asked={asked}>
      {({ pages }) => {
        const text = decoded(pages.map((page) => page.bytes));
        const lost = pages[0]?.skipped ?? 0;
        const ended = pages.at(-1)?.ended === true;
        return (
          <>
            {lost > 0 && (
              <Text size="xs" c="dimmed">
                {words.outputLost(lost)}
              </Text>
            )}
            {text === "" ? (
              <Text size="sm" c="dimmed">
                {words.outputNone}
              </Text>
            ) : (
              <pre
                className="output"
                tabIndex={0}
                role="region"
                aria-label={`${words.output} ${stream}`}
              >
                {readable(text)}
              </pre>
            )}
            <Group justify="space-between" mt={4}>
              <Text size="xs" c="dimmed">
                {ended && !asked.hasNextPage
                  ? words.outputEnd
                  : attempt.end
                    ? ""
                    : words.outputOpen}
              </Text>
              {asked.hasNextPage && (
                <Button
                  size="compact-xs"
                  variant="default"
                  loading={asked.isFetchingNextPage}
                  onClick={() => void asked.fetchNextPage()}
                >
                  {words.outputMore}
                </Button>
              )}
            </Group>
          </>
        );
      }}
    </Loaded>
  );
}

/** Chunks as UTF-8: a letter may be cut in two by the end of a chunk. */
function decoded(chunks: Uint8Array[]): string {
  const decoder = new TextDecoder();
  return chunks.map((chunk) => decoder.decode(chunk, { stream: true })).join("") + decoder.decode();
}
