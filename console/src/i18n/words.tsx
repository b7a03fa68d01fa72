// Which language is spoken: the user's choice, else the browser's.
import { createContext, type ReactNode, useContext, useEffect, useMemo, useState } from "react";
import { en, type Messages } from "./en";
import { zh } from "./zh";

export type Language = "en" | "zh";

const KEY = "sichen.language";

function preferred(): Language {
  const kept = localStorage.getItem(KEY);
  if (kept === "en" || kept === "zh") return kept;
  return navigator.languages.some((tag) => tag.toLowerCase().startsWith("zh")) ? "zh" : "en";
}

interface Spoken {
  language: Language;
  speak: (language: Language) => void;
  words: Messages;
}

const Context = createContext<Spoken>({ language: "en", speak: () => {}, words: en });

export function Words({ children }: { children: ReactNode }) {
  const [language, setLanguage] = useState<Language>(preferred);
  useEffect(() => {
    document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
  }, [language]);
  const value = useMemo<Spoken>(
    () => ({
      language,
      words: language === "zh" ? zh : en,
      speak: (chosen) => {
        localStorage.setItem(KEY, chosen);
        setLanguage(chosen);
      },
    }),
    [language],
  );
  return <Context.Provider value={value}>{children}</Context.Provider>;
}

export function useWords(): Messages {
  return useContext(Context).words;
}

export function useLanguage(): Spoken {
  return useContext(Context);
}
