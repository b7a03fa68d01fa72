-- advance_job: move the high-water marks of jobs (guards: row version, old mark, never back). Differs from
-- sqlite/advance_job.sql in taking many at once: all jobs of one instant. The last guard is hidden from the choice
-- of an index: one over the jobs that are not deleted would be walked for all of them.
update job j set high_water = i.new_mark, next_due = i.next_due, chain = i.chain,
  zones = coalesce(i.zones, j.zones), ver = j.ver + 1
from (select unnest($1::uuid[]) as uid, unnest($2::bigint[]) as ver, unnest($3::bigint[]) as old_mark,
  unnest($4::bigint[]) as new_mark, unnest($5::bigint[]) as next_due, unnest($6::text[]) as chain,
  unnest($7::text[]) as zones) i
where j.uid = i.uid and j.ver = i.ver and j.high_water = i.old_mark and i.new_mark >= j.high_water
  and coalesce(j.deleted_at is null, false)
