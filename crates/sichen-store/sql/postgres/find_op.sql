-- find_op: whether an operation was committed.
select 1 from op where id = $1
