-- The clock as a function whose plan is kept: in plain SQL it was planned anew at each call, which cost
-- more than all else of a small transaction.
create or replace function sichen_now() returns bigint language plpgsql volatile as
$$begin return (select greatest((extract(epoch from clock_timestamp()) * 1000000)::bigint, clock_mark) from meta where id = 1); end$$;

-- The clock for statements that read it themselves: what the program would have told
-- (sichen_core::timekeeping). clock is {the instant given instead of this clock, the time by the monotonic
-- clock alone, the furthest step that is believed}, each of which may be null.
create function sichen_now(clock bigint[]) returns bigint language plpgsql volatile as
$$declare
  wall bigint := coalesce(clock[1], (extract(epoch from clock_timestamp()) * 1000000)::bigint);
  mark bigint;
  held boolean;
  known bigint;
begin
  select clock_mark, clock_held into mark, held from meta where id = 1;
  known := greatest(coalesce(clock[2], case when held then mark else wall end), mark);
  if wall > known + clock[3] then return known; end if;
  return greatest(wall, mark);
end$$;

-- Entries of equal keys that come and go: kept apart, a dead one is passed over from the second look on.
alter index shard_run_held set (deduplicate_items = off);
alter index shard_pool_held set (deduplicate_items = off);
alter index shard_waiting set (deduplicate_items = off);
alter index shard_pool_waiting set (deduplicate_items = off);
