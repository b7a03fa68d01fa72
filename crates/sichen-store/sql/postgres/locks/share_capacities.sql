-- share_capacities: keep capacities from being deleted until this transaction ends; they may be used and changed.
select name from capacity where name = any($1::text[]) and not deleted order by name for key share
