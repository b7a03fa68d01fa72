-- Limits of the running attempt beside timeout_at, which is now the earlier of both: the end of the
-- attempt, and how long it may take from one sign of progress to the next.
alter table shard add column attempt_until integer check (state = 'running' or attempt_until is null);
alter table shard add column stall_us integer check (stall_us > 0 and state = 'running' or stall_us is null);
-- Attempts that run while this is applied have had the limit of the attempt alone.
update shard set attempt_until = timeout_at where timeout_at is not null;
