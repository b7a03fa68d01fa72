-- lock_capacity: a capacity, against grants, changes, and jobs that begin to use it.
select name from capacity where name = $1 for update
