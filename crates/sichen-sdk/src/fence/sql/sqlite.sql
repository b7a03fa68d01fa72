-- Sichen fence kit for SQLite (3.24 or newer). Run once in your own database; running it again
-- changes nothing. It refuses, inside your own transaction, a worker that has been replaced.
--
-- open (first thing in every attempt, alone in its transaction):
--   INSERT INTO sichen_fence (fence_key, token, upper_bound) VALUES (:key, :token, :upper)
--     ON CONFLICT (fence_key) DO UPDATE SET token = excluded.token,
--       upper_bound = min(coalesce(upper_bound, excluded.upper_bound),
--                         coalesce(excluded.upper_bound, upper_bound))
--     RETURNING checkpoint, payload, upper_bound;     -- (RETURNING: 3.35 or newer)
-- save (first statement of each BEGIN IMMEDIATE … COMMIT that writes business rows):
--   INSERT INTO sichen_fence_save (fence_key, token, checkpoint, payload)
--     VALUES (:key, :token, :checkpoint, :payload);   -- checkpoint NULL: check the token alone
-- dedupe (hits = 0: first time, do the work; more: done before, skip):
--   INSERT INTO sichen_dedupe (job, planned, item) VALUES (:job, :planned, :item)
--     ON CONFLICT (job, planned, item) DO UPDATE SET hits = hits + 1 RETURNING hits;
--
-- A refusal is RAISE(ROLLBACK): SQLite undoes the whole transaction, not just the statement.

CREATE TABLE IF NOT EXISTS sichen_fence (
  fence_key   TEXT PRIMARY KEY CHECK (length(fence_key) BETWEEN 1 AND 512),
  token       INTEGER NOT NULL CHECK (typeof(token) = 'integer' AND token > 0),
  checkpoint  INTEGER CHECK (checkpoint IS NULL OR typeof(checkpoint) = 'integer'),
  payload     TEXT,
  upper_bound INTEGER CHECK (upper_bound IS NULL OR typeof(upper_bound) = 'integer'),
  updated_at  TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
);

CREATE TABLE IF NOT EXISTS sichen_dedupe (
  job      TEXT NOT NULL,
  planned  TEXT NOT NULL,
  item     TEXT NOT NULL,
  hits     INTEGER NOT NULL DEFAULT 0 CHECK (hits >= 0),
  first_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  PRIMARY KEY (job, planned, item)
) WITHOUT ROWID;

-- Holds for every writer, also for one that goes past the statements above.
CREATE TRIGGER IF NOT EXISTS sichen_fence_guard BEFORE UPDATE ON sichen_fence
BEGIN
  SELECT RAISE(ROLLBACK, 'sichen: stale fencing token: a newer holder has opened this fence')
   WHERE NEW.token < OLD.token;
  SELECT RAISE(ROLLBACK, 'sichen: checkpoint would move back')
   WHERE OLD.checkpoint IS NOT NULL
     AND (NEW.checkpoint IS NULL OR NEW.checkpoint < OLD.checkpoint);
  SELECT RAISE(ROLLBACK, 'sichen: upper bound would rise')
   WHERE OLD.upper_bound IS NOT NULL
     AND (NEW.upper_bound IS NULL OR NEW.upper_bound > OLD.upper_bound);
  SELECT RAISE(ROLLBACK, 'sichen: checkpoint is beyond the upper bound')
   WHERE NEW.checkpoint > NEW.upper_bound;
END;

CREATE VIEW IF NOT EXISTS sichen_fence_save AS
  SELECT fence_key, token, checkpoint, payload FROM sichen_fence;

CREATE TRIGGER IF NOT EXISTS sichen_fence_save_row INSTEAD OF INSERT ON sichen_fence_save
BEGIN
  SELECT RAISE(ROLLBACK, 'sichen: stale fencing token: a newer holder has opened this fence')
    FROM sichen_fence WHERE fence_key = NEW.fence_key AND token > NEW.token;
  SELECT RAISE(ROLLBACK, 'sichen: fence not opened with this token: call open first')
   WHERE NOT EXISTS (SELECT 1 FROM sichen_fence
                      WHERE fence_key = NEW.fence_key AND token = NEW.token);
  -- The same checkpoint again is work done twice, for example a batch whose COMMIT got no answer.
  SELECT RAISE(ROLLBACK, 'sichen: checkpoint does not move forward')
    FROM sichen_fence WHERE fence_key = NEW.fence_key AND NEW.checkpoint <= checkpoint;
  UPDATE sichen_fence
     SET checkpoint = NEW.checkpoint,
         payload    = NEW.payload,
         updated_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
   WHERE fence_key = NEW.fence_key AND NEW.checkpoint IS NOT NULL;
END;
