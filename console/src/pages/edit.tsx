// Writing documents: checked as they stand, compared with what is in force, then saved.
import { Alert, Button, Group, List, SegmentedControl, Stack, Text } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { lazy, Suspense, useEffect, useState } from "react";
import { useNavigate, useParams, useSearchParams } from "react-router";
import { act, type JobRevision } from "../api/actions";
import { Refused } from "../api/client";
import { query, shownJob } from "../api/queries";
import { useWords } from "../i18n/words";
import { Diff } from "../ui/diff";
import { Loaded, Loading, Refusal } from "../ui/loaded";
import { MayButton } from "../ui/may";
import { jobAddress, Page, Section } from "../ui/parts";
import { yaml } from "./job_document";

const Editor = lazy(() => import("../ui/editor"));
const JobForm = lazy(() => import("./job_form").then(({ JobForm }) => ({ default: JobForm })));

const FIRST = `apiVersion: sichen/v1
kind: Job
metadata:
  name: hello
  title: A first job
spec:
  run:
    handler: echo
  parameters:
    greeting: hello
  shards:
    count: 5
`;

const CAPACITY = `apiVersion: sichen/v1
kind: Capacity
metadata:
  name: mysql-main
spec:
  units: 40
`;

export default function Edit() {
  const { namespace, name } = useParams();
  const [params] = useSearchParams();
  const { edit, capacities } = useWords();
  if (namespace === undefined || name === undefined) {
    const capacity = params.get("kind") === "capacity";
    return (
      <Page title={capacity ? capacities.new : edit.titleNew}>
        <Editing before="" start={capacity ? CAPACITY : FIRST} mayForm={!capacity} />
      </Page>
    );
  }
  return <EditOne namespace={namespace} name={name} />;
}

function EditOne({ namespace, name }: { namespace: string; name: string }) {
  const { edit } = useWords();
  const asked = useQuery(query.job({ namespace, name }));
  return (
    <Page title={edit.title(shownJob({ namespace, name }))}>
      <Loaded asked={asked}>
        {(job) => (
          <Editing before={yaml(job.document)} start={yaml(job.document)} of={job} mayForm />
        )}
      </Loaded>
    </Page>
  );
}

/** Documents being edited; jobs as a form too, where `mayForm`. */
export function Editing({
  before,
  start,
  of,
  mayForm,
}: {
  before: string;
  start: string;
  of?: JobRevision;
  mayForm?: boolean;
}) {
  const { edit, form } = useWords();
  const [params, setParams] = useSearchParams();
  const asForm = mayForm === true && params.get("as") === "form";
  const navigate = useNavigate();
  const cache = useQueryClient();
  // What was in force when editing began: if others changed it since, saving is refused.
  const [first] = useState({ before, start, of });
  const [text, setText] = useState(first.start);
  const checking = useMutation({ mutationFn: () => act.validate(text) });
  const saving = useMutation({
    mutationFn: (of: JobRevision | undefined) => act.apply(text, of),
    onSuccess: (applied) => {
      void cache.invalidateQueries();
      const only = applied.documents[0];
      if (only && applied.documents.length === 1) navigate(jobAddress(only));
      else if (applied.documents.length > 0) return;
      else navigate(applied.capacities?.length ? "/capacities" : "/calendars");
    },
  });
  const { reset: forgetCheck } = checking;
  const { reset: forgetSave } = saving;
  useEffect(() => {
    forgetCheck();
    forgetSave();
  }, [text]);
  const refused = saving.error ?? checking.error;
  const problems = refused instanceof Refused ? refused.problems : [];
  return (
    <Stack>
      <Text size="sm" c="dimmed">
        {edit.hint}
      </Text>
      {mayForm && (
        <SegmentedControl
          size="xs"
          style={{ alignSelf: "flex-start" }}
          aria-label={form.as}
          value={asForm ? "form" : "yaml"}
          onChange={(as) =>
            setParams(
              (old) => {
                const fresh = new URLSearchParams(old);
                fresh.set("as", as);
                return fresh;
              },
              { replace: true },
            )
          }
          data={[
            { value: "yaml", label: form.yaml },
            { value: "form", label: form.form },
          ]}
        />
      )}
      <Suspense fallback={<Loading />}>
        {asForm ? (
          <JobForm text={text} change={setText} named={first.before !== ""} />
        ) : (
          <Editor text={text} change={setText} label={edit.upload} problems={problems} />
        )}
      </Suspense>
      <Group>
        <Button variant="default" loading={checking.isPending} onClick={() => checking.mutate()}>
          {edit.check}
        </Button>
        <MayButton
          needs="editor"
          loading={saving.isPending}
          onClick={() => saving.mutate(first.of)}
        >
          {edit.save}
        </MayButton>
      </Group>
      {checking.isSuccess && !saving.error && (
        <Alert color="teal" role="status">
          {edit.fine}
        </Alert>
      )}
      {saving.data && (
        <Alert color="teal" role="status" title={edit.saved}>
          <List size="sm">
            {saving.data.documents.map((one) => (
              <List.Item key={one.uid}>{edit.result(shownJob(one), edit[one.change])}</List.Item>
            ))}
          </List>
        </Alert>
      )}
      {refused && (
        <Alert
          color="red"
          role="alert"
          title={problems.length > 0 ? edit.problems(problems.length) : undefined}
        >
          {problems.length > 0 ? (
            <List size="sm">
              {problems.map((problem) => (
                <List.Item key={`${problem.line} ${problem.path} ${problem.message}`}>
                  {problem.line != null && <b>{edit.line(problem.line)} </b>}
                  {problem.path && <code>{problem.path}</code>} {problem.message}
                </List.Item>
              ))}
            </List>
          ) : (
            <Refusal error={refused} />
          )}
          {refused instanceof Refused && refused.code === "SC5004" && (
            <MayButton
              needs="editor"
              variant="default"
              size="xs"
              mt="sm"
              loading={saving.isPending}
              onClick={() => saving.mutate(undefined)}
            >
              {edit.saveOver}
            </MayButton>
          )}
        </Alert>
      )}
      {first.before !== "" && (
        <Section title={edit.diff}>
          <Diff before={first.before} after={text} />
        </Section>
      )}
    </Stack>
  );
}
