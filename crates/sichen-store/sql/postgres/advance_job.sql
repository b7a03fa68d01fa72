-- advance_job: move the high-water marks of jobs (guards: row version, old mark, never back). Differs from
-- sqlite/advance_job.sql in taking many at once: all jobs of one instant. The last guard is hidden from the choice
-- of an index: one over the jobs that are not deleted would be walked for all of them.
update job j set high_water = i.new_mark, next_due = i.next_due, chain = i.chain,
  zones = coalesce(i.zones, j.zones), ver = j.ver + 1
from unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[], $7::text[])
  i (uid, ver, old_mark, new_mark, next_due, chain, zones)
where j.uid = i.uid and j.ver = i.ver and j.high_water = i.old_mark and i.new_mark >= j.high_water
  and coalesce(j.deleted_at is null, false)
