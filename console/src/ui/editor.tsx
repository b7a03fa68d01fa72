// The text of documents, with the server's problems at their lines.
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { defaultHighlightStyle, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { type Diagnostic, lintGutter, setDiagnostics } from "@codemirror/lint";
import { EditorState } from "@codemirror/state";
import {
  drawSelection,
  EditorView,
  highlightActiveLine,
  keymap,
  lineNumbers,
} from "@codemirror/view";
import { useEffect, useRef } from "react";
import type { ProblemAt } from "../api/client";

interface Editing {
  text: string;
  change: (text: string) => void;
  label: string;
  problems: ProblemAt[];
}

const look = EditorView.theme({
  "&": {
    border: "1px solid var(--mantine-color-default-border)",
    borderRadius: "var(--mantine-radius-sm)",
    backgroundColor: "var(--mantine-color-default)",
    color: "var(--mantine-color-text)",
    fontSize: "13px",
  },
  ".cm-scroller": {
    fontFamily: "var(--mantine-font-family-monospace)",
    minHeight: "320px",
    maxHeight: "70vh",
  },
  ".cm-gutters": {
    backgroundColor: "transparent",
    color: "var(--mantine-color-dimmed)",
    border: "none",
  },
  ".cm-content": { caretColor: "var(--mantine-color-text)" },
  ".cm-cursor": { borderLeftColor: "var(--mantine-color-text)" },
  ".cm-activeLine": { backgroundColor: "var(--mantine-color-default-hover)" },
});

export default function Editor({ text, change, label, problems }: Editing) {
  const place = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const changed = useRef(change);
  changed.current = change;
  useEffect(() => {
    if (place.current === null) return;
    const made = new EditorView({
      parent: place.current,
      state: EditorState.create({
        doc: text,
        extensions: [
          lineNumbers(),
          history(),
          drawSelection(),
          highlightActiveLine(),
          indentUnit.of("  "),
          yaml(),
          syntaxHighlighting(defaultHighlightStyle, { fallback: true }),
          lintGutter(),
          // Escape, then Tab leaves the editor: said by the library, kept by this order.
          keymap.of([...defaultKeymap, ...historyKeymap, indentWithTab]),
          EditorView.lineWrapping,
          EditorView.contentAttributes.of({ "aria-label": label }),
          EditorView.updateListener.of((update) => {
            if (update.docChanged) changed.current(update.state.doc.toString());
          }),
          look,
        ],
      }),
    });
    view.current = made;
    return () => made.destroy();
  }, []);
  useEffect(() => {
    const now = view.current;
    if (now === null || now.state.doc.toString() === text) return;
    now.dispatch({ changes: { from: 0, to: now.state.doc.length, insert: text } });
  }, [text]);
  useEffect(() => {
    const now = view.current;
    if (now !== null) now.dispatch(setDiagnostics(now.state, marks(now.state, problems)));
  }, [problems]);
  return <div ref={place} />;
}

/** The problems that have a line which is there. */
function marks(state: EditorState, problems: ProblemAt[]): Diagnostic[] {
  return problems.flatMap((problem) => {
    if (problem.line == null || problem.line < 1 || problem.line > state.doc.lines) return [];
    const line = state.doc.line(problem.line);
    const from = Math.min(line.to, line.from + Math.max(0, (problem.column ?? 1) - 1));
    return [{ from, to: line.to, severity: "error" as const, message: problem.message }];
  });
}
