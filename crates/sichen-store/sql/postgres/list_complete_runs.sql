-- list_complete_runs: runs of which nothing is open and that have no outcome (there should be none).
-- scans: run
select id, job_uid from run where live and open = 0 and ended_at is null order by id limit $1
