-- Limits of the running attempt beside timeout_at, which is now the earlier of both: the end of the
-- attempt, and how long it may take from one sign of progress to the next. New columns without a value
-- rewrite nothing, and the check is asked of new rows alone.
alter table shard add column attempt_until bigint, add column stall_us bigint;
alter table shard add constraint shard_limits_while_running
  check (state = 'running' or (attempt_until is null and stall_us is null)) not valid;
alter table shard add constraint shard_stall_positive check (stall_us > 0) not valid;
-- Attempts that run while this is applied have had the limit of the attempt alone.
update shard set attempt_until = timeout_at where timeout_at is not null;
