-- get_meta: the store's epoch, clock mark, what the clock itself says (not sichen_now(), which is never behind the mark
-- and so would hide that the clock was set back), whether time is held, and whether any namespace has a limit of
-- what it runs or of what it queues.
select store_epoch, clock_mark, (extract(epoch from clock_timestamp()) * 1000000)::bigint as wall, clock_held,
  clock_accepts, limited, queues_limited
from meta where id = 1
