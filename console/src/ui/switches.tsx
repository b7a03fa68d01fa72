// Language, colours and zone: one switch each.
import { SegmentedControl, useMantineColorScheme } from "@mantine/core";
import { type Language as Spoken, useLanguage, useWords } from "../i18n/words";
import type { ZoneChoice } from "../time/instant";
import { useZone } from "../time/zone";

export function Language() {
  const { language, speak, words } = useLanguage();
  return (
    <SegmentedControl
      size="xs"
      aria-label={words.nav.language}
      value={language}
      onChange={(value) => speak(value as Spoken)}
      data={[
        { value: "en", label: "English" },
        { value: "zh", label: "中文" },
      ]}
    />
  );
}

export function Theme() {
  const { nav } = useWords();
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  return (
    <SegmentedControl
      size="xs"
      aria-label={nav.theme}
      value={colorScheme}
      onChange={(value) => setColorScheme(value as "light" | "dark" | "auto")}
      data={[
        { value: "light", label: nav.themeLight },
        { value: "dark", label: nav.themeDark },
        { value: "auto", label: nav.themeAuto },
      ]}
    />
  );
}

export function Zone() {
  const { nav } = useWords();
  const { choice, choose } = useZone();
  return (
    <SegmentedControl
      size="xs"
      aria-label={nav.zone}
      value={choice}
      onChange={(value) => choose(value as ZoneChoice)}
      data={[
        { value: "job", label: nav.zoneJob },
        { value: "browser", label: nav.zoneBrowser },
        { value: "utc", label: nav.zoneUtc },
      ]}
    />
  );
}
