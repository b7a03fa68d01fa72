-- get_run: one run.
select r.* from run r where id = $1
