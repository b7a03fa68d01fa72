-- shift_dead_by: by when task trees are surely gone, if that has not passed at $2, later by $1.
-- scans: run
update run set dead_by = dead_by + $1 where dead_by is not null and dead_by >= $2
