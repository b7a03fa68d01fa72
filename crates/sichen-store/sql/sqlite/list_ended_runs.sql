-- list_ended_runs: runs that ended by ?3, after the one that ended at ?1 and has the number ?2; by their end.
select r.* from run r where ended_at is not null and (ended_at, id) > (?1, ?2) and ended_at <= ?3
order by ended_at, id limit ?4
