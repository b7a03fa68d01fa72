-- list_unsuccessful_runs: runs that ended since ?1 without success, the last first.
select r.* from run r where ended_at is not null and state <> 'succeeded' and ended_at >= ?1
order by ended_at desc, id desc limit ?2
