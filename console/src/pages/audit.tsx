// Audit, in two views: who changed what, and what was planned against what is recorded.
import { SegmentedControl, Text } from "@mantine/core";
import { useSearchParams } from "react-router";
import { useWords } from "../i18n/words";
import { Page } from "../ui/parts";
import { Changes } from "./audit_changes";
import { Planned } from "./audit_planned";

export default function Audit() {
  const { audit } = useWords();
  const [params, setParams] = useSearchParams();
  const view = params.get("view") === "planned" ? "planned" : "changes";
  return (
    <Page
      title={audit.title}
      aside={
        <SegmentedControl
          size="xs"
          aria-label={audit.title}
          value={view}
          onChange={(chosen) => setParams(chosen === "planned" ? { view: chosen } : {})}
          data={[
            { value: "changes", label: audit.changes },
            { value: "planned", label: audit.planned },
          ]}
        />
      }
    >
      <Text size="sm" c="dimmed">
        {view === "planned" ? audit.plannedHint : audit.hint}
      </Text>
      {view === "planned" ? <Planned /> : <Changes />}
    </Page>
  );
}
