-- Sichen fence kit for MySQL (8.0.19 or newer) and MariaDB (10.6 or newer), InnoDB. Run once in
-- your own database with the command-line client (it needs DELIMITER); running it again changes
-- nothing. It refuses, inside your own transaction, a worker that has been replaced.
--
-- open (first thing in every attempt, alone in its transaction; returns one row):
--   CALL sichen_fence_open(:key, :token, :upper);      -- checkpoint, payload, upper_bound
-- save (first statement of each transaction that writes business rows):
--   CALL sichen_fence_save(:key, :token, :checkpoint, :payload);
--   (checkpoint NULL: check the token alone)
-- dedupe (0: first time, do the work; more: done before, skip; returns one row):
--   CALL sichen_dedupe_hit(:job, :planned, :item);     -- hits
--
-- A refusal is SIGNAL SQLSTATE '45000' with the error numbers 31001 stale token, 31002 not opened
-- with this token, 31003 checkpoint does not move forward, 31004 checkpoint is beyond the upper bound,
-- 31005 upper bound would rise. The procedures roll the whole transaction back before they signal:
-- MySQL by itself would end only the statement and keep the row locked against the new holder.

SET SESSION sql_mode = CONCAT(@@SESSION.sql_mode, ',STRICT_ALL_TABLES');

-- Keys are bytes: no collation may take two keys for one (case, trailing blanks).
CREATE TABLE IF NOT EXISTS sichen_fence (
  fence_key   VARBINARY(512) NOT NULL PRIMARY KEY,
  token       BIGINT NOT NULL CHECK (token > 0),
  checkpoint  BIGINT NULL,
  payload     LONGTEXT NULL,
  upper_bound BIGINT NULL,
  updated_at  TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

CREATE TABLE IF NOT EXISTS sichen_dedupe (
  job      VARBINARY(128) NOT NULL,
  planned  VARBINARY(512) NOT NULL,
  item     VARBINARY(512) NOT NULL,
  hits     BIGINT NOT NULL DEFAULT 0,
  first_at TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
  PRIMARY KEY (job, planned, item)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

DELIMITER $$

DROP TRIGGER IF EXISTS sichen_fence_guard $$

-- Holds for every writer, also for one that goes past the procedures below.
CREATE TRIGGER sichen_fence_guard BEFORE UPDATE ON sichen_fence FOR EACH ROW
BEGIN
  IF NEW.token < OLD.token THEN
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 31001, MESSAGE_TEXT =
      'sichen: stale fencing token: a newer holder has opened this fence';
  END IF;
  IF OLD.checkpoint IS NOT NULL
     AND (NEW.checkpoint IS NULL OR NEW.checkpoint < OLD.checkpoint) THEN
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 31003, MESSAGE_TEXT =
      'sichen: checkpoint would move back';
  END IF;
  IF OLD.upper_bound IS NOT NULL
     AND (NEW.upper_bound IS NULL OR NEW.upper_bound > OLD.upper_bound) THEN
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 31005, MESSAGE_TEXT =
      'sichen: upper bound would rise';
  END IF;
  IF NEW.checkpoint > NEW.upper_bound THEN
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 31004, MESSAGE_TEXT =
      'sichen: checkpoint is beyond the upper bound';
  END IF;
END $$

DROP PROCEDURE IF EXISTS sichen_fence_open $$

CREATE PROCEDURE sichen_fence_open(IN p_key VARBINARY(512), IN p_token BIGINT, IN p_upper BIGINT)
MODIFIES SQL DATA
BEGIN
  DECLARE EXIT HANDLER FOR SQLSTATE '45000' BEGIN ROLLBACK; RESIGNAL; END;
  -- The update branch runs the guard: an older token is refused there.
  INSERT INTO sichen_fence (fence_key, token, upper_bound) VALUES (p_key, p_token, p_upper)
    ON DUPLICATE KEY UPDATE
      token = p_token,
      upper_bound = LEAST(COALESCE(upper_bound, p_upper), COALESCE(p_upper, upper_bound));
  SELECT checkpoint, payload, upper_bound FROM sichen_fence WHERE fence_key = p_key FOR UPDATE;
END $$

DROP PROCEDURE IF EXISTS sichen_fence_save $$

CREATE PROCEDURE sichen_fence_save(
  IN p_key VARBINARY(512), IN p_token BIGINT, IN p_checkpoint BIGINT, IN p_payload LONGTEXT)
MODIFIES SQL DATA
BEGIN
  DECLARE held BIGINT DEFAULT NULL;
  DECLARE reached BIGINT DEFAULT NULL;
  DECLARE EXIT HANDLER FOR SQLSTATE '45000' BEGIN ROLLBACK; RESIGNAL; END;
  -- FOR UPDATE reads the newest committed row also under REPEATABLE READ; a plain SELECT would
  -- read the snapshot and let a stale holder pass.
  SELECT MAX(token), MAX(checkpoint) INTO held, reached
    FROM sichen_fence WHERE fence_key = p_key FOR UPDATE;
  IF held > p_token THEN
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 31001, MESSAGE_TEXT =
      'sichen: stale fencing token: a newer holder has opened this fence';
  END IF;
  IF NOT (held <=> p_token) THEN
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 31002, MESSAGE_TEXT =
      'sichen: fence not opened with this token: call sichen_fence_open first';
  END IF;
  -- The same checkpoint again is work done twice, for example a batch whose COMMIT got no answer.
  IF p_checkpoint <= reached THEN
    SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 31003, MESSAGE_TEXT =
      'sichen: checkpoint does not move forward';
  END IF;
  UPDATE sichen_fence SET checkpoint = p_checkpoint, payload = p_payload
   WHERE fence_key = p_key AND p_checkpoint IS NOT NULL;
END $$

DROP PROCEDURE IF EXISTS sichen_dedupe_hit $$

CREATE PROCEDURE sichen_dedupe_hit(
  IN p_job VARBINARY(128), IN p_planned VARBINARY(512), IN p_item VARBINARY(512))
MODIFIES SQL DATA
BEGIN
  INSERT INTO sichen_dedupe (job, planned, item) VALUES (p_job, p_planned, p_item)
    ON DUPLICATE KEY UPDATE hits = hits + 1;
  SELECT hits FROM sichen_dedupe
   WHERE job = p_job AND planned = p_planned AND item = p_item FOR UPDATE;
END $$

DELIMITER ;
