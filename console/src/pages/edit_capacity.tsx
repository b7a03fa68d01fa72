// A capacity's document, edited like a job's.
import { useQuery } from "@tanstack/react-query";
import { useParams } from "react-router";
import { query } from "../api/queries";
import { useWords } from "../i18n/words";
import { Loaded } from "../ui/loaded";
import { Page } from "../ui/parts";
import { Editing } from "./edit";
import { yaml } from "./job_document";

export default function EditCapacity() {
  const { name = "" } = useParams();
  const { capacities } = useWords();
  const asked = useQuery(query.capacity(name));
  return (
    <Page title={capacities.editTitle(name)}>
      <Loaded asked={asked}>
        {({ document }) => <Editing before={yaml(document)} start={yaml(document)} />}
      </Loaded>
    </Page>
  );
}
