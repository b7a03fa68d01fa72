-- lengthen_decision: the last record of a job's skipped instants reaches to ?3 and has ?4 more, if it is still the one that
-- begins at ?2 and says the same.
update decision set to_at = ?3, count = count + ?4
where id = (select x.id from decision x where x.job_uid = ?1 and x.reason <> 'removed' and x.reason <> 'gap'
  order by x.to_at desc, x.from_at desc, x.id desc limit 1)
  and from_at = ?2 and to_at < ?3 and reason = ?5 and reference = ?6
