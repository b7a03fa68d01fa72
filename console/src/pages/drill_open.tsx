// Opening evidence folders of this machine: by a button, or by dropping them here.
import { Button, Group, Stack, Text } from "@mantine/core";
import { useEffect, useRef, useState } from "react";
import { useWords } from "../i18n/words";
import { type Found, MAX_FILES } from "./drill_record";

export function OpenFolder({ opened }: { opened: (found: Found[]) => void }) {
  const { drills } = useWords();
  const input = useRef<HTMLInputElement>(null);
  const [over, setOver] = useState(false);
  useEffect(() => {
    // No word of TypeScript's for it; without it a button opens files alone.
    input.current?.setAttribute("webkitdirectory", "");
  }, []);
  return (
    <div
      className="drop"
      role="group"
      aria-label={drills.drop}
      data-over={over || undefined}
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={(event) => {
        event.preventDefault();
        setOver(false);
        void dropped(event.dataTransfer).then(opened);
      }}
    >
      <Stack align="center" gap="xs">
        <Text size="sm" ta="center">
          {drills.drop}
        </Text>
        <Group>
          <Button size="xs" onClick={() => input.current?.click()}>
            {drills.open}
          </Button>
        </Group>
        <Text size="xs" c="dimmed" ta="center">
          {drills.stays}
        </Text>
      </Stack>
      <input
        ref={input}
        type="file"
        multiple
        hidden
        aria-label={drills.open}
        onChange={(event) => {
          const files = [...(event.currentTarget.files ?? [])].slice(0, MAX_FILES);
          opened(files.map((file) => ({ path: file.webkitRelativePath || file.name, file })));
          // The same folder may be opened again after it has changed.
          event.currentTarget.value = "";
        }}
      />
    </div>
  );
}

/** All files of what was dropped, folders and what is in them too. */
async function dropped(given: DataTransfer): Promise<Found[]> {
  const entries = [...given.items].flatMap((item) => item.webkitGetAsEntry() ?? []);
  const found: Found[] = [];
  for (const entry of entries) await walk(entry, found);
  return found;
}

async function walk(entry: FileSystemEntry, found: Found[]): Promise<void> {
  if (found.length >= MAX_FILES) return;
  if (entry.isFile) {
    const file = await new Promise<File>((resolve, reject) =>
      (entry as FileSystemFileEntry).file(resolve, reject),
    );
    found.push({ path: entry.fullPath.replace(/^\//, ""), file });
    return;
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  for (;;) {
    // It gives a hundred at a time, and none at the end.
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) =>
      reader.readEntries(resolve, reject),
    );
    if (some.length === 0) return;
    for (const one of some) await walk(one, found);
  }
}
