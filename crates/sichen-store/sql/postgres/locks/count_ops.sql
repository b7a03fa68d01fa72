-- count_ops: how many of these operations were committed.
select count(*) from op where id = any($1)
