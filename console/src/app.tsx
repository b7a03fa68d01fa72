// The addresses of the views. Their first segments are known to the server too
// (`crates/sichen-server/src/console.rs`), which answers each with this page.
import { useEffect, useSyncExternalStore } from "react";
import { Navigate, Route, Routes, useLocation } from "react-router";
import { Live } from "./live/watch";
import { Missing } from "./pages/missing";
import { Overview } from "./pages/overview";
import { Login } from "./session/login";
import { session } from "./session/token";
import { Guarded, later, loadInPeace } from "./ui/later";
import { useSeesAll } from "./ui/may";
import { Shell } from "./ui/shell";

const Jobs = later(() => import("./pages/jobs"));
const JobPage = later(() => import("./pages/job"));
const Edit = later(() => import("./pages/edit"));
const Runs = later(() => import("./pages/runs"));
const RunPage = later(() => import("./pages/run"));
const Workers = later(() => import("./pages/workers"));
const DeadLetters = later(() => import("./pages/dead_letters"));
const Calendars = later(() => import("./pages/calendars"));
const Cluster = later(() => import("./pages/cluster"));
const Capacities = later(() => import("./pages/capacities"));
const CapacityPage = later(() => import("./pages/capacity"));
const EditCapacity = later(() => import("./pages/edit_capacity"));
const Namespaces = later(() => import("./pages/namespaces"));
const Tokens = later(() => import("./pages/tokens"));
const Audit = later(() => import("./pages/audit"));
const Alerts = later(() => import("./pages/alerts"));
const Drills = later(() => import("./pages/drills"));
const Import = later(() => import("./pages/import"));
const BackfillPage = later(() => import("./pages/backfill"));

/** The overview, for those who see all; the jobs for others. */
function Home() {
  return useSeesAll() ? <Overview /> : <Navigate to="/jobs" replace />;
}

export function App() {
  const token = useSyncExternalStore(session.listen, session.token);
  const { pathname } = useLocation();
  useEffect(() => {
    if (token !== null) loadInPeace();
  }, [token]);
  if (token === null) return <Login />;
  return (
    <Live>
      <Shell>
        <Guarded at={pathname}>
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
        </Guarded>
      </Shell>
    </Live>
  );
}
