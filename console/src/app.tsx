// The addresses of the views. Their first segments are known to the server too
// (`crates/sichen-server/src/console.rs`), which answers each with this page.
import { lazy, Suspense, useSyncExternalStore } from "react";
import { Navigate, Route, Routes } from "react-router";
import { Live } from "./live/watch";
import { Missing } from "./pages/missing";
import { Overview } from "./pages/overview";
import { Login } from "./session/login";
import { session } from "./session/token";
import { Loading } from "./ui/loaded";
import { useSeesAll } from "./ui/may";
import { Shell } from "./ui/shell";

const Jobs = lazy(() => import("./pages/jobs"));
const JobPage = lazy(() => import("./pages/job"));
const Edit = lazy(() => import("./pages/edit"));
const Runs = lazy(() => import("./pages/runs"));
const RunPage = lazy(() => import("./pages/run"));
const Workers = lazy(() => import("./pages/workers"));
const DeadLetters = lazy(() => import("./pages/dead_letters"));
const Calendars = lazy(() => import("./pages/calendars"));
const Cluster = lazy(() => import("./pages/cluster"));
const Capacities = lazy(() => import("./pages/capacities"));
const CapacityPage = lazy(() => import("./pages/capacity"));
const EditCapacity = lazy(() => import("./pages/edit_capacity"));
const Namespaces = lazy(() => import("./pages/namespaces"));
const Tokens = lazy(() => import("./pages/tokens"));
const Audit = lazy(() => import("./pages/audit"));
const Alerts = lazy(() => import("./pages/alerts"));
const Drills = lazy(() => import("./pages/drills"));
const Import = lazy(() => import("./pages/import"));
const BackfillPage = lazy(() => import("./pages/backfill"));

/** The overview, for those who see all; the jobs for others. */
function Home() {
  return useSeesAll() ? <Overview /> : <Navigate to="/jobs" replace />;
}

export function App() {
  const token = useSyncExternalStore(session.listen, session.token);
  if (token === null) return <Login />;
  return (
    <Live>
      <Shell>
        <Suspense fallback={<Loading />}>
          <Routes>
            <Route path="/" element={<Home />} />
            <Route path="/jobs" element={<Jobs />} />
            <Route path="/jobs/new" element={<Edit />} />
            <Route path="/jobs/:namespace/:name" element={<JobPage />} />
            <Route path="/jobs/:namespace/:name/edit" element={<Edit />} />
            <Route path="/runs" element={<Runs />} />
            <Route path="/runs/:id" element={<RunPage />} />
            <Route path="/backfills/:id" element={<BackfillPage />} />
            <Route path="/workers" element={<Workers />} />
            <Route path="/dead-letters" element={<DeadLetters />} />
            <Route path="/calendars" element={<Calendars />} />
            <Route path="/calendars/:namespace/:name" element={<Calendars />} />
            <Route path="/capacities" element={<Capacities />} />
            <Route path="/capacities/:name" element={<CapacityPage />} />
            <Route path="/capacities/:name/edit" element={<EditCapacity />} />
            <Route path="/namespaces" element={<Namespaces />} />
            <Route path="/audit" element={<Audit />} />
            <Route path="/alerts" element={<Alerts />} />
            <Route path="/drills" element={<Drills />} />
            <Route path="/import" element={<Import />} />
            <Route path="/tokens" element={<Tokens />} />
            <Route path="/cluster" element={<Cluster />} />
            <Route path="*" element={<Missing />} />
          </Routes>
        </Suspense>
      </Shell>
    </Live>
  );
}
