-- dump_decisions: every row, for tests and checks on small stores.
-- scans: decision
select job_uid, from_at, to_at, count, reason, reference from decision order by id
