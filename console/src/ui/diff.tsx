// Two texts, line by line.

import { Text } from "@mantine/core";
import { diffLines } from "diff";
import { useWords } from "../i18n/words";

export function Diff({ before, after }: { before: string; after: string }) {
  const { edit } = useWords();
  if (before === after) {
    return (
      <Text size="sm" c="dimmed">
        {edit.noDiff}
      </Text>
    );
  }
  return (
    <pre className="output" tabIndex={0} role="region" aria-label={edit.diff}>
      {diffLines(before, after).map((part, index) => {
        const sign = part.added ? "+" : part.removed ? "-" : " ";
        const kind = part.added ? "diff-added" : part.removed ? "diff-removed" : undefined;
        const lines = part.value.replace(/\n$/, "").split("\n");
        return (
          <span key={index} className={kind} style={{ display: "block" }}>
            {lines.map((line) => `${sign} ${line}`).join("\n")}
          </span>
        );
      })}
    </pre>
  );
}
