-- read_shards: shards, one a pair of the two arrays.
select s.* from (select unnest($1::bigint[]) as run_id, unnest($2::bigint[]) as no) i
join shard s on s.run_id = i.run_id and s.no = i.no
