// In which zone instants are shown, and the element that shows one.
import { createContext, type ReactNode, useContext, useMemo, useState } from "react";
import { inZone, shown, type ZoneChoice } from "./instant";

const KEY = "sichen.zone";

interface Zone {
  choice: ZoneChoice;
  choose: (choice: ZoneChoice) => void;
}

const Context = createContext<Zone>({ choice: "job", choose: () => {} });

export function Zones({ children }: { children: ReactNode }) {
  const [choice, setChoice] = useState<ZoneChoice>(() => {
    const kept = localStorage.getItem(KEY);
    return kept === "browser" || kept === "utc" ? kept : "job";
  });
  const value = useMemo(
    () => ({
      choice,
      choose: (chosen: ZoneChoice) => {
        localStorage.setItem(KEY, chosen);
        setChoice(chosen);
      },
    }),
    [choice],
  );
  return <Context.Provider value={value}>{children}</Context.Provider>;
}

export function useZone(): Zone {
  return useContext(Context);
}

/** The text of an instant, for places that take no element. */
export function useInstant(): (text: string, jobZone?: string) => string {
  const { choice } = useZone();
  return (text, jobZone) => shown(text, choice, jobZone);
}

/** An instant with its offset; in UTC when pointed at. */
export function Instant({ at, zone }: { at: string | null | undefined; zone?: string }) {
  const text = useInstant();
  if (!at) return <span className="dimmed">–</span>;
  return (
    <time dateTime={at} title={inZone(at, "UTC")} className="instant">
      {text(at, zone)}
    </time>
  );
}
