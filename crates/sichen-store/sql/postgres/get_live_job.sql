-- get_live_job: the live job of a name.
select j.* from job j where namespace = $1 and name = $2 and deleted_at is null
