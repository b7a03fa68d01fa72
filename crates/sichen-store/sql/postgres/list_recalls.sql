-- list_recalls: shards of the runs $1 that were asked to give their slots up: at most 1,000 a run.
select r.* from (select unnest($1::bigint[]) as run_id) i
cross join lateral (select r.* from recall r where r.run_id = i.run_id order by r.no, r.token limit 1000) r
order by r.run_id, r.no, r.token
