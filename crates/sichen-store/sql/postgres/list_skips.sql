-- list_skips: what was not run since $1, by job and reason, of the last $2 decisions.
select j.namespace, j.name, d.reason, sum(d.count)::bigint, sum(d.filled)::bigint from (
  select job_uid, reason, count, filled from decision where to_at + 0 >= $1 order by to_at + 0 desc limit $2
) d join job j on j.uid = d.job_uid
group by j.namespace, j.name, d.reason order by j.namespace, j.name, d.reason
