-- Sichen fence kit for PostgreSQL (14 or newer). Run once in your own database, as the user that
-- owns your tables; running it again changes nothing. It refuses, inside your own transaction, a
-- worker that has been replaced.
--
-- open (first thing in every attempt, alone in its transaction):
--   SELECT checkpoint, payload, upper_bound FROM sichen_fence_open($key, $token, $upper);
-- save (first statement of each transaction that writes business rows):
--   SELECT sichen_fence_save($key, $token, $checkpoint, $payload);
--   (checkpoint NULL: check the token alone)
-- dedupe (0: first time, do the work; more: done before, skip):
--   SELECT sichen_dedupe_hit($job, $planned, $item);
--
-- SQLSTATEs: SC001 stale token, SC002 not opened with this token, SC003 checkpoint does not
-- move forward, SC004 checkpoint is beyond the upper bound, SC005 upper bound would rise.
-- The row lock is what makes this safe: open waits for a save that is in flight, and a save after
-- open sees the raised token under every isolation level. A frozen client inside a transaction
-- holds open up, so set idle_in_transaction_session_timeout for your workers.

CREATE TABLE IF NOT EXISTS sichen_fence (
  fence_key   text PRIMARY KEY CHECK (length(fence_key) BETWEEN 1 AND 512),
  token       bigint NOT NULL CHECK (token > 0),
  checkpoint  bigint,
  payload     text,
  upper_bound bigint,
  updated_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE IF NOT EXISTS sichen_dedupe (
  job      text NOT NULL,
  planned  text NOT NULL,
  item     text NOT NULL,
  hits     bigint NOT NULL DEFAULT 0 CHECK (hits >= 0),
  first_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (job, planned, item)
);

-- Holds for every writer, also for one that goes past the functions below.
CREATE OR REPLACE FUNCTION sichen_fence_guard() RETURNS trigger LANGUAGE plpgsql AS $sichen$
BEGIN
  IF NEW.token < OLD.token THEN
    RAISE EXCEPTION 'sichen: stale fencing token % for %: the store holds %',
      NEW.token, OLD.fence_key, OLD.token USING ERRCODE = 'SC001';
  END IF;
  IF OLD.checkpoint IS NOT NULL
     AND (NEW.checkpoint IS NULL OR NEW.checkpoint < OLD.checkpoint) THEN
    RAISE EXCEPTION 'sichen: checkpoint would move back from % to % for %',
      OLD.checkpoint, NEW.checkpoint, OLD.fence_key USING ERRCODE = 'SC003';
  END IF;
  IF OLD.upper_bound IS NOT NULL
     AND (NEW.upper_bound IS NULL OR NEW.upper_bound > OLD.upper_bound) THEN
    RAISE EXCEPTION 'sichen: upper bound would rise from % to % for %',
      OLD.upper_bound, NEW.upper_bound, OLD.fence_key USING ERRCODE = 'SC005';
  END IF;
  IF NEW.checkpoint > NEW.upper_bound THEN
    RAISE EXCEPTION 'sichen: checkpoint is beyond the upper bound: % > % for %',
      NEW.checkpoint, NEW.upper_bound, OLD.fence_key USING ERRCODE = 'SC004';
  END IF;
  RETURN NEW;
END
$sichen$;

CREATE OR REPLACE TRIGGER sichen_fence_guard BEFORE UPDATE ON sichen_fence
  FOR EACH ROW EXECUTE FUNCTION sichen_fence_guard();

CREATE OR REPLACE FUNCTION sichen_fence_open(
  p_key text, p_token bigint, p_upper bigint DEFAULT NULL
) RETURNS TABLE (checkpoint bigint, payload text, upper_bound bigint) LANGUAGE plpgsql AS $sichen$
#variable_conflict use_column
BEGIN
  INSERT INTO sichen_fence (fence_key, token, upper_bound) VALUES (p_key, p_token, p_upper)
    ON CONFLICT (fence_key) DO NOTHING;
  -- LEAST passes over NULL: the first bound given is kept, a smaller one (after a split) wins.
  RETURN QUERY
    UPDATE sichen_fence f
       SET token = p_token, upper_bound = LEAST(f.upper_bound, p_upper),
           updated_at = clock_timestamp()
     WHERE f.fence_key = p_key
    RETURNING f.checkpoint, f.payload, f.upper_bound;
END
$sichen$;

CREATE OR REPLACE FUNCTION sichen_fence_save(
  p_key text, p_token bigint, p_checkpoint bigint, p_payload text DEFAULT NULL
) RETURNS void LANGUAGE plpgsql AS $sichen$
DECLARE
  held bigint;
  reached bigint;
BEGIN
  SELECT f.token, f.checkpoint INTO held, reached FROM sichen_fence f WHERE f.fence_key = p_key FOR UPDATE;
  IF held > p_token THEN
    RAISE EXCEPTION 'sichen: stale fencing token % for %: the store holds %',
      p_token, p_key, held USING ERRCODE = 'SC001';
  END IF;
  IF held IS DISTINCT FROM p_token THEN
    RAISE EXCEPTION 'sichen: fence not opened with this token: % for %',
      p_token, p_key USING ERRCODE = 'SC002', HINT = 'Call sichen_fence_open first.';
  END IF;
  -- The same checkpoint again is work done twice, for example a batch whose COMMIT got no answer.
  IF p_checkpoint <= reached THEN
    RAISE EXCEPTION 'sichen: checkpoint does not move forward: % after % for %',
      p_checkpoint, reached, p_key USING ERRCODE = 'SC003';
  END IF;
  UPDATE sichen_fence f
     SET checkpoint = p_checkpoint, payload = p_payload, updated_at = clock_timestamp()
   WHERE f.fence_key = p_key AND p_checkpoint IS NOT NULL;
END
$sichen$;

CREATE OR REPLACE FUNCTION sichen_dedupe_hit(p_job text, p_planned text, p_item text)
RETURNS bigint LANGUAGE sql AS $sichen$
  INSERT INTO sichen_dedupe AS d (job, planned, item) VALUES (p_job, p_planned, p_item)
    ON CONFLICT (job, planned, item) DO UPDATE SET hits = d.hits + 1
    RETURNING d.hits
$sichen$;
