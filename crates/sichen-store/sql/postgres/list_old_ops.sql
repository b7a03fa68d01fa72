-- list_old_ops: the oldest operations, to be forgotten if their time has come (n rises with time), at most $1.
-- scans: op
select n, at from op order by n limit $1
