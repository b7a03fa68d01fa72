-- list_runs_by_job: runs of job $3 before id $1, newest first: the newest in each state, merged. Said as
-- ranges of (job, state, id), so that their index alone gives the order.
select r.* from
  unnest(array['scheduled', 'running', 'succeeded', 'partial', 'failed', 'cancelled']) s (state),
  lateral (
    select r.* from run r
    where (job_uid, r.state, id) < ($3, s.state, $1) and (job_uid, r.state) >= ($3, s.state) and id > 0
    order by job_uid desc, r.state desc, id desc limit $2) r
order by id desc limit $2
