-- lock_shards: shards, one a pair of the two arrays.
select s.* from unnest($1::bigint[], $2::bigint[]) i (run_id, no) join shard s on s.run_id = i.run_id and s.no = i.no
order by s.run_id, s.no for no key update of s
